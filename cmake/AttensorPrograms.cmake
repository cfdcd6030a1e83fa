# How the project's own tests, examples and benchmarks are compiled. Nothing here reaches a user of attensor::attensor.

get_property(multi_config GLOBAL PROPERTY GENERATOR_IS_MULTI_CONFIG)
if(PROJECT_IS_TOP_LEVEL AND NOT CMAKE_BUILD_TYPE AND NOT multi_config)
  message(STATUS "attensor: no build type given, so it is Release")
  set_property(CACHE CMAKE_BUILD_TYPE PROPERTY VALUE Release)
endif()
if(PROJECT_IS_TOP_LEVEL)
  set(CMAKE_CXX_EXTENSIONS OFF)
  set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
endif()

if(NOT TARGET attensor::safetensors)
  message(FATAL_ERROR "attensor: the tests, examples and benchmarks need nlohmann/json (Debian: nlohmann-json3-dev). "
    "To do without: -DATTENSOR_BUILD_TESTS=OFF -DATTENSOR_BUILD_EXAMPLES=OFF -DATTENSOR_BUILD_BENCHMARKS=OFF")
endif()

set(gnu_like "$<OR:$<CXX_COMPILER_ID:GNU>,$<CXX_COMPILER_ID:Clang>,$<CXX_COMPILER_ID:AppleClang>>")

# ---- attensor_warnings, attensor_arch, attensor_flags ----------------------------------------------------------------

add_library(attensor_warnings INTERFACE)
target_compile_options(attensor_warnings INTERFACE
  "$<${gnu_like}:-Wall;-Wextra;-Wpedantic;-Wshadow;-Wconversion;-Wsign-conversion>"
  "$<$<CXX_COMPILER_ID:MSVC>:/W4;/utf-8;/bigobj>")
# g++ 12 takes the undefined registers in its own AVX-512 intrinsics for uninitialized variables (GCC bug 105593), and
# sees an overlap in "text" + std::string (GCC bug 105651).
set(gcc_12 "$<AND:$<CXX_COMPILER_ID:GNU>,$<VERSION_LESS:$<CXX_COMPILER_VERSION>,13>>")
target_compile_options(attensor_warnings INTERFACE "$<${gcc_12}:-Wno-uninitialized;-Wno-maybe-uninitialized;-Wno-restrict>")
if(ATTENSOR_WERROR)
  target_compile_options(attensor_warnings INTERFACE "$<IF:$<CXX_COMPILER_ID:MSVC>,/WX,-Werror>")
endif()

add_library(attensor_arch INTERFACE)
if(ATTENSOR_ARCH)
  separate_arguments(arch_flags NATIVE_COMMAND "${ATTENSOR_ARCH}")
  target_compile_options(attensor_arch INTERFACE ${arch_flags})
elseif(ATTENSOR_NATIVE)
  target_compile_options(attensor_arch INTERFACE "$<${gnu_like}:-march=native>")
endif()

add_library(attensor_flags INTERFACE)
target_link_libraries(attensor_flags INTERFACE attensor_warnings attensor_arch)
if(ATTENSOR_SANITIZE)
  target_compile_options(attensor_flags INTERFACE
    -fsanitize=${ATTENSOR_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
  target_link_options(attensor_flags INTERFACE -fsanitize=${ATTENSOR_SANITIZE})
endif()

# ---- attensor_test_products ------------------------------------------------------------------------------------------

# A matrix product takes tens of seconds to compile. So the products of float and double are instantiated here, once;
# what links to this target gets the definition under which the headers only declare them.
file(GLOB products CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/tests/support/products*.cpp")
add_library(attensor_test_products OBJECT ${products})
target_link_libraries(attensor_test_products PRIVATE attensor::attensor attensor_flags)
target_compile_definitions(attensor_test_products INTERFACE ATTENSOR_TEST_EXTERN_PRODUCTS)

# A program of the project's own: the libraries, the flags and the products.
function(attensor_program name)
  add_executable(${name} ${ARGN})
  target_link_libraries(${name} PRIVATE attensor::attensor attensor::safetensors attensor_flags attensor_test_products)
endfunction()
