#pragma once

// Of AddressSanitizer's runtime: null without it. Tests may be compiled without what they link.
extern "C" [[gnu::weak]] void __asan_init();

namespace cclmark {

#ifdef __SANITIZE_THREAD__
/// ThreadSanitizer watches every access of every thread: a loop over types, which differ in no
/// access, takes long there and shows nothing.
inline constexpr bool kThreadsWatched = true;
#else
inline constexpr bool kThreadsWatched = false;
#endif

/// A sanitizer that watches every access makes large messages take minutes.
inline const bool kWatched = kThreadsWatched || &__asan_init != nullptr;

}  // namespace cclmark
