# The core asks the system for nothing: none of ROOMS (archives, separated by commas) refers to a function that loads
# code, opens files or reads the environment.
string(REPLACE "," ";" ROOMS "${ROOMS}")
foreach(ROOM ${ROOMS})
  execute_process(COMMAND ${NM} -u ${ROOM} OUTPUT_VARIABLE SYMBOLS RESULT_VARIABLE FAILED)
  if(FAILED)
    message(FATAL_ERROR "nm cannot read ${ROOM}")
  endif()
  string(REGEX MATCHALL
    " U (dlopen|dlsym|EVP_[A-Za-z_]+|getenv|secure_getenv|open|open64|fopen|fopen64|opendir|access|stat|readlink|_ZNSt12__basic_file[A-Za-z0-9_]*|_ZNSt(13|14)basic_(i|o)?fstream[A-Za-z0-9_]*|_ZNSt10filesystem6status[A-Za-z0-9_]*|_ZNSt10filesystem[0-9A-Za-z_]*directory_iterator[A-Za-z0-9_]*|_ZN9rehearsal8scenario4diskEv)\n"
    FOUND "${SYMBOLS}\n")
  if(FOUND)
    message(SEND_ERROR "${ROOM} is no part of a core that needs no system: ${FOUND}")
  endif()
endforeach()
