kv_leveldb_fork(hyperleveldb PACKAGE leveldown-hyper VERSION 2.0.0
  SHA256 a68babb9f256d0651fcbcfe3ef8e45ee3f7a7fb3e4bcbe865e4566f0ac14e035
  SOURCES leveldb-hyper-1.0.2 INCLUDE . CONFIGURATION leveldb-hyper-conf/linux)
