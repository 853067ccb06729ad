"""What a run says in plain words: what was measured, what stands out, what to do about it.

Safe to print: see report.text.
"""
