# Makes the target Eigen3::Eigen, here and in the installed package alike, from the first of
#
#   1. a target Eigen3::Eigen that the project has already,
#   2. ATTENSOR_EIGEN_DIR, a directory that contains Eigen/Core,
#   3. find_package(Eigen3 CONFIG), without a version: the version files of 3.4 and 5 refuse each other's ranges.
#
# Where there is none, or one older than 3.4, ATTENSOR_EIGEN_NOT_FOUND says so in words.

unset(ATTENSOR_EIGEN_NOT_FOUND)
if(NOT TARGET Eigen3::Eigen)
  if(ATTENSOR_EIGEN_DIR)
    if(EXISTS "${ATTENSOR_EIGEN_DIR}/Eigen/Core")
      add_library(Eigen3::Eigen INTERFACE IMPORTED GLOBAL)
      target_include_directories(Eigen3::Eigen INTERFACE "${ATTENSOR_EIGEN_DIR}")
    else()
      set(ATTENSOR_EIGEN_NOT_FOUND "ATTENSOR_EIGEN_DIR is ${ATTENSOR_EIGEN_DIR}, which does not contain Eigen/Core")
    endif()
  else()
    find_package(Eigen3 CONFIG QUIET GLOBAL)
    if(NOT TARGET Eigen3::Eigen)
      string(CONCAT ATTENSOR_EIGEN_NOT_FOUND "Eigen not found. Pass -DATTENSOR_EIGEN_DIR=DIR, where DIR contains "
        "Eigen/Core, or -DEigen3_DIR=DIR, where DIR contains Eigen3Config.cmake, or install Eigen 3.4 or 5")
    endif()
  endif()
endif()

# The version, from the header that defines it: Eigen/Version since 5, a header of the core before.
if(TARGET Eigen3::Eigen)
  get_target_property(attensor_eigen_dirs Eigen3::Eigen INTERFACE_INCLUDE_DIRECTORIES)
  find_file(attensor_eigen_header NAMES Eigen/Version Eigen/src/Core/util/Macros.h
    PATHS ${attensor_eigen_dirs} NO_CACHE NO_DEFAULT_PATH)
  if(attensor_eigen_header)
    file(STRINGS "${attensor_eigen_header}" attensor_eigen_lines
      REGEX "^#define EIGEN_(WORLD|MAJOR|MINOR|PATCH)_VERSION [0-9]+")
    foreach(line IN LISTS attensor_eigen_lines)
      string(REGEX MATCH "EIGEN_([A-Z]+)_VERSION ([0-9]+)" line "${line}")
      set(attensor_eigen_${CMAKE_MATCH_1} ${CMAKE_MATCH_2})
    endforeach()
    if(DEFINED attensor_eigen_PATCH)
      set(ATTENSOR_EIGEN_VERSION ${attensor_eigen_MAJOR}.${attensor_eigen_MINOR}.${attensor_eigen_PATCH})
    else()
      set(ATTENSOR_EIGEN_VERSION ${attensor_eigen_WORLD}.${attensor_eigen_MAJOR}.${attensor_eigen_MINOR})
    endif()
    if(ATTENSOR_EIGEN_VERSION VERSION_LESS 3.4)
      string(CONCAT ATTENSOR_EIGEN_NOT_FOUND "Eigen ${ATTENSOR_EIGEN_VERSION} in ${attensor_eigen_dirs} is too old; "
        "3.4 or 5 is needed")
    elseif(NOT attensor_FIND_QUIETLY)
      message(STATUS "attensor: Eigen ${ATTENSOR_EIGEN_VERSION} in ${attensor_eigen_dirs}")
    endif()
  endif()
endif()
