"""What programs communicate."""
