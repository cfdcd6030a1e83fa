# cmake -Dcompiler=CXX -Dcase=FILE "-Dinclude_dirs=DIR;DIR" -P check.cmake

cmake_policy(VERSION 3.25)

list(TRANSFORM include_dirs PREPEND -isystem OUTPUT_VARIABLE flags)
execute_process(COMMAND "${compiler}" -std=c++20 -fsyntax-only ${flags} "${case}"
  RESULT_VARIABLE status OUTPUT_VARIABLE output ERROR_VARIABLE output)

cmake_path(GET case STEM name)
if(name STREQUAL "control")
  if(NOT status EQUAL 0)
    message(FATAL_ERROR "control.cpp does not compile:\n${output}")
  endif()
  return()
endif()

file(READ "${case}" text)
if(NOT text MATCHES "^// expect: ([^\n]+)\n")
  message(FATAL_ERROR "The first line of ${case} is not: // expect: <regex>")
endif()
set(expected "${CMAKE_MATCH_1}")
if(status EQUAL 0)
  message(FATAL_ERROR "${case} compiles")
endif()
string(REGEX MATCH "[^\n]*error:[^\n]*" first_error "${output}")
if(NOT first_error MATCHES "${expected}")
  message(FATAL_ERROR "The first error does not match ${expected}:\n${first_error}\n\nThe whole output:\n${output}")
endif()
message("${first_error}")
