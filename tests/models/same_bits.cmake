# cmake -Dprogram=FILE -P same_bits.cmake: 100 steps of training have the same bits in processes of their own, each with
# memory at other addresses, at 1, 2, 3 and 8 threads.

set(digests "")
foreach(threads IN ITEMS 1 1 2 3 8)
  set(ENV{ATTENSOR_NUM_THREADS} ${threads})
  execute_process(COMMAND "${program}" "--test-case=training: digest*" --no-skip
    OUTPUT_VARIABLE output RESULT_VARIABLE status)
  if(NOT status EQUAL 0 OR NOT output MATCHES "digest ([0-9a-f]+)")
    message(FATAL_ERROR "${program} at ${threads} threads: ${status}\n${output}")
  endif()
  message("${threads} threads: ${CMAKE_MATCH_1}")
  list(APPEND digests "${CMAKE_MATCH_1}")
endforeach()
list(REMOVE_DUPLICATES digests)
list(LENGTH digests count)
if(NOT count EQUAL 1)
  message(FATAL_ERROR "expected the same bits each time")
endif()
