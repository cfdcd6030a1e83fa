# cmake -Dnm=NM "-Dobjects=A.o;B.o;..." -P isa_symbols.cmake
#
# The objects come from one source and differ in their -m flags. A weak function that two of them share is a function of
# which the linker keeps one copy, maybe the one that the machine cannot run. attensor's names carry the instruction set,
# and Eigen's are instantiated with types of attensor's, so no function of either is shared. (Weak data, such as type
# information, is the same in all of them.)

cmake_policy(VERSION 3.25)

set(all "")
set(shared "")
foreach(object IN LISTS objects)
  execute_process(COMMAND "${nm}" --defined-only "${object}" OUTPUT_VARIABLE text COMMAND_ERROR_IS_FATAL ANY)
  string(REGEX MATCHALL " W [^\n]*(attensor|Eigen)[^\n]*" functions "${text}")
  list(LENGTH functions count)
  if(count EQUAL 0)
    message(FATAL_ERROR "${object} has no function of attensor's: nothing was tested")
  endif()
  foreach(function IN LISTS functions)
    if(function IN_LIST all)
      list(APPEND shared "${function}")
    endif()
  endforeach()
  list(APPEND all ${functions})
endforeach()

if(shared)
  list(JOIN shared "\n" shared)
  message(FATAL_ERROR "Functions that objects with different -m flags share:\n${shared}")
endif()
