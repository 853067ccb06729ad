#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "ccl/communicator.hpp"
#include "core/operation.hpp"

namespace cclmark {

/// The division of an operation into calls over consecutive parts of its buffers.
struct Pieces {
  std::vector<size_t> counts;  ///< elements of each part; empty: the whole operation in one call
  bool grouped = false;        ///< the library launches all calls as one
};

/// Binds an operation as the calls of its pieces, in order, as one call of the timed loop.
///
/// The outputs of the pieces together are the output of the operation. That holds where every
/// rank's input and output have the length of the operation: not where parts of several ranks
/// follow each other in a buffer. Raises Error for such an operation and for counts with another
/// sum than the operation's, UnsupportedError as Communicator::bind.
///
/// The call raises the refusal of its first piece as it is. A refusal of a later one is an Error,
/// because pieces before it have been enqueued.
std::unique_ptr<Call> bind_pieces(Communicator& communicator, const Operation& operation,
                                  const Pieces& pieces, void* stream);

}  // namespace cclmark
