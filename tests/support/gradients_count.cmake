# cmake -Dcounts=DIR -Dwanted=N -P gradients_count.cmake
#
# Adds up how many gradient configurations the test programs say they checked (gradient_check.cpp).

file(GLOB files "${counts}/*")
set(total 0)
foreach(file IN LISTS files)
  file(READ "${file}" count)
  string(STRIP "${count}" count)
  math(EXPR total "${total} + ${count}")
endforeach()
list(LENGTH files programs)
message("${total} gradient configurations in ${programs} tests")
if(total LESS wanted)
  message(FATAL_ERROR "expected at least ${wanted}")
endif()
