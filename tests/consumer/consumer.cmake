# What both consumers do once they have the targets.

# Nothing of how the project compiles itself reaches its users.
foreach(target IN ITEMS attensor::attensor attensor::safetensors)
  foreach(property IN ITEMS INTERFACE_COMPILE_OPTIONS INTERFACE_COMPILE_DEFINITIONS INTERFACE_LINK_OPTIONS)
    get_target_property(value ${target} ${property})
    if(value)
      message(FATAL_ERROR "${target} sets ${property} on its users: ${value}")
    endif()
  endforeach()
endforeach()
foreach(target IN ITEMS attensor_flags attensor_test_products attensor_test_main attensor_bench)
  if(TARGET ${target})
    message(FATAL_ERROR "Using the library makes the target ${target}")
  endif()
endforeach()

add_executable(consumer ../main.cpp)
target_link_libraries(consumer PRIVATE attensor::attensor)

add_executable(consumer_safetensors ../safetensors.cpp)
target_link_libraries(consumer_safetensors PRIVATE attensor::safetensors)
