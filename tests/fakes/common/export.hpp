#pragma once

/// Everything else in these libraries stays hidden, so that they export what the real ones do.
#define FAKE_API extern "C" __attribute__((visibility("default")))
