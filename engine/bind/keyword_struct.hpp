#pragma once

#include <nanobind/nanobind.h>

#include <new>
#include <utility>

namespace cclmark {

/// A field of a struct with the keyword argument that sets it. `Argument` is nanobind's type of an
/// argument, with a default value if the argument is optional.
template <typename Struct, typename Value, typename Argument>
struct Field {
  using Type = Value;
  Argument argument;
  Value Struct::* member;
};

template <typename Struct, typename Value, typename Argument>
Field<Struct, Value, Argument> field(Argument argument, Value Struct::* member) {
  return {std::move(argument), member};
}

/// Binds a struct that Python constructs with one keyword argument for each field.
template <typename Struct, typename... Fields>
nanobind::class_<Struct> bind_struct(nanobind::module_& m, const char* name,
                                     const Fields&... fields) {
  return nanobind::class_<Struct>(m, name).def(
      "__init__",
      [... members = fields.member](Struct* self, typename Fields::Type... values) {
        Struct made;
        ((made.*members = std::move(values)), ...);
        new (self) Struct(std::move(made));
      },
      nanobind::kw_only(), fields.argument...);
}

}  // namespace cclmark
