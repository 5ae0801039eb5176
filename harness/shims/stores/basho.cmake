kv_leveldb_fork(basho PACKAGE leveldown-basho VERSION 0.10.1
  SHA256 d7bead1230b8c52bdc11ec72fc561e94ec2d04be1735fe64f39972d0f96f6b64
  SOURCES leveldb-basho INCLUDE include)
