# LMDB 0.9, whose files LMDB 1.0 (2026) can't read. Its own Makefile leaves assertions on.
set(folder ${CMAKE_BINARY_DIR}/python3/lmdb-3.0.0)
kv_unpack("lmdb 3.0.0" 06dda0723545e14d56ac7dcd6f582d9922c2ed5e16f1c3f8d0e670a96ec2ee65
  ${folder} reason python3/lmdb-3.0.0.tar.gz python3 "Debian: python3-pip"
  -m pip download --retries 1 --no-deps --no-binary lmdb lmdb==3.0.0)
if(reason)
  return()
endif()
kv_engine(lmdb BUILD "PyPI lmdb 3.0.0"
  SOURCES ${folder}/lmdb-3.0.0/lib/mdb.c ${folder}/lmdb-3.0.0/lib/midl.c
  INCLUDE ${folder}/lmdb-3.0.0/lib)
