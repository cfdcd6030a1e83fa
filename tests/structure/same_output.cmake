# cmake -Dprogram=FILE -Dexpected=FILE -P same_output.cmake
#
# Runs the program; it has to succeed, and to print what is in the file, if there is one.

cmake_policy(VERSION 3.25)

execute_process(COMMAND "${program}" OUTPUT_VARIABLE printed COMMAND_ERROR_IS_FATAL ANY)
if(EXISTS "${expected}")
  file(READ "${expected}" wanted)
  string(REGEX REPLACE "[ \n]+$" "" printed "${printed}")
  string(REGEX REPLACE "[ \n]+$" "" wanted "${wanted}")
  if(NOT printed STREQUAL wanted)
    message(FATAL_ERROR "README says that this is printed:\n${wanted}\nbut it is:\n${printed}")
  endif()
endif()
