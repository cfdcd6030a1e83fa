# cmake -Dinclude_dir=DIR -P includes.cmake
#
# Includes go only leftwards: core -> ops -> attention -> layers -> models. optim and io see core and layers/parameter.hpp
# only; models may use io too. One header of core includes Eigen, and only core/gemm.hpp and core/packet.hpp touch
# Eigen::internal. The umbrella lists every header that has no foreign dependency, in this order. Every header says
# #pragma once.

cmake_policy(VERSION 3.25)

set(may_include_core core)
set(may_include_ops core ops)
set(may_include_attention core ops attention)
set(may_include_layers core ops attention layers)
set(may_include_models core ops attention layers models io)
set(may_include_optim core optim)
set(may_include_io core io)
set(foreign "^attensor/io/(safetensors|checkpoint)")
set(order core ops attention layers models optim io)

set(faults "")
function(fault)
  string(CONCAT text ${ARGN})
  set(faults "${faults}  ${text}\n" PARENT_SCOPE)
endfunction()

file(GLOB_RECURSE headers RELATIVE "${include_dir}" "${include_dir}/attensor/*.hpp")
list(REMOVE_ITEM headers attensor/attensor.hpp)
set(eigen_headers "")

foreach(header IN LISTS headers)
  if(NOT header MATCHES "^attensor/([a-z]+)/[a-z0-9_]+\\.hpp$" OR NOT CMAKE_MATCH_1 IN_LIST order)
    fault("${header} is in none of the folders ${order}")
    continue()
  endif()
  set(folder "${CMAKE_MATCH_1}")

  file(STRINGS "${include_dir}/${header}" once REGEX "^#pragma once$")
  if(NOT once)
    fault("${header} has no #pragma once")
  endif()

  file(STRINGS "${include_dir}/${header}" lines REGEX "^ *# *include ")
  foreach(line IN LISTS lines)
    if(line MATCHES "\"attensor/([a-z]+)/" AND NOT CMAKE_MATCH_1 IN_LIST may_include_${folder}
        AND NOT (folder MATCHES "^(optim|io)$" AND line MATCHES "\"attensor/layers/parameter.hpp\""))
      fault("${header} may not include ${line}")
    elseif(line MATCHES "\"" AND NOT line MATCHES "\"attensor/[a-z]+/[a-z0-9_]+\\.hpp\"")
      fault("${header}: write \"attensor/FOLDER/NAME.hpp\" in ${line}")
    elseif(line MATCHES "<(unsupported/)?Eigen/")
      list(APPEND eigen_headers "${header}")
    elseif(line MATCHES "<nlohmann/" AND NOT header MATCHES "${foreign}")
      fault("${header} may not include ${line}")
    endif()
  endforeach()

  file(STRINGS "${include_dir}/${header}" internal REGEX "^[^/]*Eigen::internal")
  if(internal AND NOT header MATCHES "^attensor/core/(gemm|packet)\\.hpp$")
    fault("${header} touches Eigen::internal")
  endif()
endforeach()

list(REMOVE_DUPLICATES eigen_headers)
list(LENGTH eigen_headers count)
if(NOT count EQUAL 1 OR NOT eigen_headers MATCHES "^attensor/core/")
  fault("one header, in core, includes Eigen; here: ${eigen_headers}")
endif()

file(STRINGS "${include_dir}/attensor/attensor.hpp" lines REGEX "^#include \"attensor/")
list(TRANSFORM lines REPLACE "^#include \"(.*)\".*$" "\\1" OUTPUT_VARIABLE listed)
set(last 0)
foreach(header IN LISTS listed)
  string(REGEX REPLACE "^attensor/([a-z]+)/.*" "\\1" folder "${header}")
  list(FIND order "${folder}" position)
  if(position LESS last)
    fault("attensor.hpp lists ${header} out of the order ${order}")
  endif()
  set(last ${position})
endforeach()
list(FILTER headers EXCLUDE REGEX "${foreign}")
foreach(header IN LISTS headers)
  if(NOT header IN_LIST listed)
    fault("attensor.hpp does not list ${header}")
  endif()
endforeach()
foreach(header IN LISTS listed)
  if(NOT header IN_LIST headers)
    fault("attensor.hpp lists ${header}, which is not there or has a foreign dependency")
  endif()
endforeach()

if(faults)
  message(FATAL_ERROR "The rules of include/ do not hold:\n${faults}")
endif()
