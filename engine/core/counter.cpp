#include "core/counter.hpp"

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>

#include "core/error.hpp"

namespace cclmark {

OperationCounter::OperationCounter(int fd, size_t offset) {
  if (offset % sizeof(Words) != 0) {
    throw Error("byte " + std::to_string(offset) +
                " of the status board is not aligned for counts");
  }
  struct stat file{};
  if (fstat(fd, &file) != 0) {
    throw Error(Error::describe("fstat(status board)", errno, std::strerror(errno)));
  }
  // Behind the end of a file its memory cannot be touched, which only shows when it is.
  if (offset + sizeof(Words) > static_cast<size_t>(file.st_size)) {
    throw Error("the status board has no room for counts at byte " + std::to_string(offset));
  }
  size_t skipped = offset % static_cast<size_t>(sysconf(_SC_PAGESIZE));
  bytes_ = skipped + sizeof(Words);
  void* memory = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED, fd,
                      static_cast<off_t>(offset - skipped));
  if (memory == MAP_FAILED) {
    throw Error(Error::describe("mmap(status board)", errno, std::strerror(errno)));
  }
  page_ = static_cast<std::byte*>(memory);
  words_ = reinterpret_cast<Words*>(page_ + skipped);
}

OperationCounter::~OperationCounter() {
  if (page_ != nullptr) munmap(page_, bytes_);
}

void OperationCounter::restart() {
  put(words_->complete, 0);
  put(words_->entered, 0);
  put(words_->before_batch, 0);
  put(words_->communicators, get(words_->communicators) + 1);
}

void OperationCounter::take_back_to(uint64_t operations) {
  if (get(words_->complete) > operations) put(words_->complete, operations);
  put(words_->entered, operations);
}

}  // namespace cclmark
