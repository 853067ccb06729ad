#pragma once

namespace cclmark {

/// Installs a handler for `signal`, with which the main thread appends its stack to `fd` and then
/// continues. `fd` must remain open. Raises Error.
///
/// This works in any call and any loop that does not block the signal. The text consists of these
/// lines: `begin`; the output of the previous handler, for example Python's stack;
/// `address PC` for each frame, innermost first; `frame<tab>PC<tab>MODULE<tab>OFFSET<tab>SYMBOL` in
/// the same order; `end`. Numbers are hexadecimal. The symbol is the linker's name with an offset
/// (`name+0x12`), and empty if the module does not export one.
///
/// The handler allocates no memory. Names come last because looking them up may wait for the
/// loader's lock: if another thread hangs while it loads a library, the text ends before the names.
void report_stack_on(int signal, int fd);

}  // namespace cclmark
