# find_package(pinnace): the target pinnace::mindspore_lite.
if(NOT TARGET pinnace::mindspore_lite)
  find_package(Threads REQUIRED)
  add_library(pinnace::mindspore_lite SHARED IMPORTED)
  set_target_properties(pinnace::mindspore_lite PROPERTIES
    IMPORTED_LOCATION "@PREFIX@/lib/libmindspore-lite.so"
    INTERFACE_INCLUDE_DIRECTORIES "@PREFIX@"
    INTERFACE_COMPILE_FEATURES cxx_std_17
    INTERFACE_LINK_LIBRARIES Threads::Threads)
endif()
