// The result of a call: a code, and a text that says what was wrong and what to do.
#pragma once

#include <climits>
#include <cstdint>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "include/api/dual_abi_helper.h"
#include "include/api/visible.h"

namespace mindspore {
enum CompCode : uint32_t {
  kCore = 0x00000000u,
  kMD = 0x10000000u,
  kME = 0x20000000u,
  kMC = 0x30000000u,
  kLite = 0xF0000000u,
};

// The codes of MindSpore Lite 2.11. Those of LLMs, ACL and single fields of tensors are here for programs that compare
// with them; no call returns them.
enum StatusCode : uint32_t {
  kSuccess = 0,
  kCoreFailed = kCore | 0x1,

  kMDOutOfMemory = kMD | 1,
  kMDShapeMisMatch = kMD | 2,
  kMDInterrupted = kMD | 3,
  kMDNoSpace = kMD | 4,
  kMDPyFuncException = kMD | 5,
  kMDDuplicateKey = kMD | 6,
  kMDPythonInterpreterFailure = kMD | 7,
  kMDTDTPushFailure = kMD | 8,
  kMDFileNotExist = kMD | 9,
  kMDProfilingError = kMD | 10,
  kMDBoundingBoxOutOfBounds = kMD | 11,
  kMDBoundingBoxInvalidShape = kMD | 12,
  kMDSyntaxError = kMD | 13,
  kMDTimeOut = kMD | 14,
  kMDBuddySpaceFull = kMD | 15,
  kMDNetWorkError = kMD | 16,
  kMDNotImplementedYet = kMD | 17,
  kMDUnexpectedError = kMD | 127,

  kMEFailed = kME | 0x1,
  kMEInvalidInput = kME | 0x2,

  kMCFailed = kMC | 0x1,
  kMCDeviceError = kMC | 0x2,
  kMCInvalidInput = kMC | 0x3,
  kMCInvalidArgs = kMC | 0x4,

  kLiteError = kLite | (0x0FFFFFFF & -1),
  kLiteNullptr = kLite | (0x0FFFFFFF & -2),
  kLiteParamInvalid = kLite | (0x0FFFFFFF & -3),
  kLiteNoChange = kLite | (0x0FFFFFFF & -4),
  kLiteSuccessExit = kLite | (0x0FFFFFFF & -5),
  kLiteMemoryFailed = kLite | (0x0FFFFFFF & -6),
  kLiteNotSupport = kLite | (0x0FFFFFFF & -7),
  kLiteThreadPoolError = kLite | (0x0FFFFFFF & -8),
  kLiteUninitializedObj = kLite | (0x0FFFFFFF & -9),
  kLiteFileError = kLite | (0x0FFFFFFF & -10),
  kLiteServiceDeny = kLite | (0x0FFFFFFF & -11),
  kLiteModelRebuild = kLite | (0x0FFFFFFF & -12),
  kLiteAclInitFailed = kLite | (0x0FFFFFFF & -13),

  kLiteOutOfTensorRange = kLite | (0x0FFFFFFF & -100),
  kLiteInputTensorError = kLite | (0x0FFFFFFF & -101),
  kLiteReentrantError = kLite | (0x0FFFFFFF & -102),
  kLiteLLMWaitProcessTimeOut = kLite | (0x0FFFFFFF & -103),
  kLiteLLMKVCacheNotExist = kLite | (0x0FFFFFFF & -104),
  kLiteLLMRepeatRequest = kLite | (0x0FFFFFFF & -105),
  kLiteLLMRequestAlreadyCompleted = kLite | (0x0FFFFFFF & -106),
  kLiteLLMEngineFinalized = kLite | (0x0FFFFFFF & -107),
  kLiteLLMNotYetLink = kLite | (0x0FFFFFFF & -108),
  kLiteLLMAlreadyLink = kLite | (0x0FFFFFFF & -109),
  kLiteLLMLinkFailed = kLite | (0x0FFFFFFF & -110),
  kLiteLLMUnlinkFailed = kLite | (0x0FFFFFFF & -111),
  kLiteLLMNofiryPromptUnlinkFailed = kLite | (0x0FFFFFFF & -112),
  kLiteLLMClusterNumExceedLimit = kLite | (0x0FFFFFFF & -113),
  kLiteLLMProcessingLink = kLite | (0x0FFFFFFF & -114),
  kLiteLLMOutOfMemory = kLite | (0x0FFFFFFF & -115),
  kLiteLLMPrefixAlreadyExist = kLite | (0x0FFFFFFF & -116),
  kLiteLLMPrefixNotExist = kLite | (0x0FFFFFFF & -117),
  kLiteLLMSeqLenOverLimit = kLite | (0x0FFFFFFF & -118),
  kLiteLLMNoFreeBlock = kLite | (0x0FFFFFFF & -119),
  kLiteLLMBlockOutOfMemory = kLite | (0x0FFFFFFF & -120),
  kLiteGraphFileError = kLite | (0x0FFFFFFF & -200),
  kLiteNotFindOp = kLite | (0x0FFFFFFF & -300),
  kLiteInvalidOpName = kLite | (0x0FFFFFFF & -301),
  kLiteInvalidOpAttr = kLite | (0x0FFFFFFF & -302),
  kLiteOpExecuteFailure = kLite | (0x0FFFFFFF & -303),
  kLiteFormatError = kLite | (0x0FFFFFFF & -400),
  kLiteShapeError = kLite | (0x0FFFFFFF & -401),
  kLiteDataSizeError = kLite | (0x0FFFFFFF & -402),
  kLiteDTypeError = kLite | (0x0FFFFFFF & -403),
  kLiteDeviceDataError = kLite | (0x0FFFFFFF & -404),
  kLiteHostDataError = kLite | (0x0FFFFFFF & -405),
  kLiteInferError = kLite | (0x0FFFFFFF & -500),
  kLiteInferInvalid = kLite | (0x0FFFFFFF & -501),
  kLiteInputParamInvalid = kLite | (0x0FFFFFFF & -600),
  kLiteOutputParamInvalid = kLite | (0x0FFFFFFF & -700),
};

// Copies share what they hold, as copies of a shared_ptr do. Success holds nothing.
class MS_API Status {
 public:
  Status() = default;
  Status(enum StatusCode status_code, const std::string &status_msg = "");  // NOLINT: implicit, as in `return kSuccess`
  Status(enum StatusCode code, int line_of_code, const char *file_name, const std::string &extra = "");

  enum StatusCode StatusCode() const;
  // Returns the text of the code and the message.
  std::string ToString() const;

  // Returns where the error was noticed; -1 and "" unless the constructor was told.
  int GetLineOfCode() const;
  std::string GetFileName() const;
  std::string GetErrDescription() const;
  std::string SetErrDescription(const std::string &err_description);
  void SetStatusMsg(const std::string &status_msg);

  MS_API friend std::ostream &operator<<(std::ostream &os, const Status &s);

  bool operator==(const Status &other) const { return StatusCode() == other.StatusCode(); }
  bool operator==(enum StatusCode other_code) const { return StatusCode() == other_code; }
  bool operator!=(const Status &other) const { return !(*this == other); }
  bool operator!=(enum StatusCode other_code) const { return !(*this == other_code); }

  explicit operator bool() const { return IsOk(); }
  explicit operator int() const { return static_cast<int>(StatusCode()); }

  static Status OK() { return {}; }
  bool IsOk() const { return StatusCode() == kSuccess; }
  bool IsError() const { return !IsOk(); }

  static std::string CodeAsString(enum StatusCode c);

 private:
  struct Data;
  Data &Changed();
  std::shared_ptr<Data> data_;
};
}  // namespace mindspore
