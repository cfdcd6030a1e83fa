# Installs the headers and a package, so that find_package(attensor) gives attensor::attensor, and
# find_package(attensor COMPONENTS safetensors) gives attensor::safetensors too.

include(CMakePackageConfigHelpers)
include(GNUInstallDirs)

set(package_dir "${CMAKE_INSTALL_DATADIR}/cmake/attensor")

install(TARGETS attensor EXPORT attensorTargets FILE_SET HEADERS)
install(EXPORT attensorTargets NAMESPACE attensor:: DESTINATION "${package_dir}")
if(TARGET attensor_safetensors)
  install(TARGETS attensor_safetensors EXPORT attensorSafetensorsTargets FILE_SET HEADERS)
  install(EXPORT attensorSafetensorsTargets NAMESPACE attensor:: DESTINATION "${package_dir}")
endif()

configure_package_config_file(
  "${PROJECT_SOURCE_DIR}/cmake/attensorConfig.cmake.in" "${PROJECT_BINARY_DIR}/attensorConfig.cmake"
  INSTALL_DESTINATION "${package_dir}" NO_SET_AND_CHECK_MACRO)
write_basic_package_version_file("${PROJECT_BINARY_DIR}/attensorConfigVersion.cmake"
  COMPATIBILITY SameMinorVersion ARCH_INDEPENDENT)
install(FILES
  "${PROJECT_BINARY_DIR}/attensorConfig.cmake"
  "${PROJECT_BINARY_DIR}/attensorConfigVersion.cmake"
  "${PROJECT_SOURCE_DIR}/cmake/AttensorEigen.cmake"
  DESTINATION "${package_dir}")
install(FILES "${PROJECT_SOURCE_DIR}/LICENSE" DESTINATION "${CMAKE_INSTALL_DOCDIR}")
