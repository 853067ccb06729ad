#pragma once

namespace cclmark {

/// From now on the main thread writes where it is to the end of `fd`, which stays open, each time
/// the process gets `signal`; then whatever it was doing goes on. Raises Error.
///
/// It works in any call and in any loop that lets signals through. The text, line by line:
/// `begin`; what the handler that was there before writes, such as Python's of its own stack;
/// `address PC` for each frame, innermost first; `frame<tab>PC<tab>MODULE<tab>OFFSET<tab>SYMBOL` in
/// the same order, numbers in hexadecimal, the symbol as the linker knows it, `+0x12` after it, and
/// empty where the module does not export one; `end`.
///
/// Nothing here allocates memory. Names come last because to ask for them may wait for the lock of
/// the loader: where another thread hangs in the loading of a library everything but names is
/// there.
void report_stack_on(int signal, int fd);

}  // namespace cclmark
