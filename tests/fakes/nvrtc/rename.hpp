#pragma once

// Included before everything else where the fake NVRTC is built under another vendor's names: its
// functions then begin with FAKE_RTC_PREFIX, and return FAKE_RTC_IMAGE instead of a CUBIN.

#define FAKE_RTC_JOINED(prefix, name) prefix##name
#define FAKE_RTC_JOIN(prefix, name) FAKE_RTC_JOINED(prefix, name)
#define FAKE_RTC(name) FAKE_RTC_JOIN(FAKE_RTC_PREFIX, name)

#define nvrtcGetErrorString FAKE_RTC(GetErrorString)
#define nvrtcCreateProgram FAKE_RTC(CreateProgram)
#define nvrtcDestroyProgram FAKE_RTC(DestroyProgram)
#define nvrtcCompileProgram FAKE_RTC(CompileProgram)
#define nvrtcGetProgramLogSize FAKE_RTC(GetProgramLogSize)
#define nvrtcGetProgramLog FAKE_RTC(GetProgramLog)
#define nvrtcGetCUBINSize FAKE_RTC_JOIN(FAKE_RTC(Get), FAKE_RTC_JOIN(FAKE_RTC_IMAGE, Size))
#define nvrtcGetCUBIN FAKE_RTC_JOIN(FAKE_RTC(Get), FAKE_RTC_IMAGE)
