# Writes the texts FOLDER/NAME.cu of the list TEXTS as strings into HEADER. A #line directive in front of each lets a
# compiler's messages name the file and its line.
set(code "// Generated from runtime/backend/cuda/kernels/*.cu.\n#pragma once\n\nnamespace tessera::rt::cuda::kernels {\n\n")
foreach(text ${TEXTS})
  file(READ ${FOLDER}/${text}.cu body)
  string(REPLACE "/" ";" words ${text})
  set(name k)
  foreach(word ${words})
    string(SUBSTRING ${word} 0 1 first)
    string(TOUPPER ${first} first)
    string(SUBSTRING ${word} 1 -1 rest)
    string(APPEND name ${first}${rest})
  endforeach()
  string(APPEND code
    "inline constexpr char ${name}[] = R\"cuda(\n#line 1 \"${text}.cu\"\n${body})cuda\";\n\n")
endforeach()
string(APPEND code "} // namespace tessera::rt::cuda::kernels\n")
file(WRITE ${HEADER} "${code}")
