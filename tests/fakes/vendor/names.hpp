#pragma once

// The name of a function of the library that is built, whose prefix is FAKE_CCL_PREFIX.

#define FAKE_CCL_JOINED(prefix, name) prefix##name
#define FAKE_CCL_JOIN(prefix, name) FAKE_CCL_JOINED(prefix, name)
#define FAKE_CCL(name) FAKE_CCL_JOIN(FAKE_CCL_PREFIX, name)
