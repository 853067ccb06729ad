#pragma once

namespace cclmark {

#ifdef __SANITIZE_THREAD__
/// ThreadSanitizer watches every access of every thread: a loop over types, which differ in no
/// access, takes long there and shows nothing.
inline constexpr bool kThreadsWatched = true;
#else
inline constexpr bool kThreadsWatched = false;
#endif

#ifdef __SANITIZE_ADDRESS__
inline constexpr bool kAddressesWatched = true;
#else
inline constexpr bool kAddressesWatched = false;
#endif

/// A sanitizer that watches every access makes large messages take minutes.
inline constexpr bool kWatched = kThreadsWatched || kAddressesWatched;

}  // namespace cclmark
