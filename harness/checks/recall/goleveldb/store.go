// goleveldb as a C library: each write is synced. One store a process.
package main

// #include <stddef.h>
import "C"

import (
	"unsafe"

	"github.com/syndtr/goleveldb/leveldb"
	"github.com/syndtr/goleveldb/leveldb/opt"
)

var db *leveldb.DB

var synced = &opt.WriteOptions{Sync: true}

// An error's text, for the caller to free, or nil.
func text(err error) *C.char {
	if err == nil {
		return nil
	}
	return C.CString(err.Error())
}

func bytes(data unsafe.Pointer, size C.size_t) []byte {
	return C.GoBytes(data, C.int(size))
}

//export recall_open
func recall_open(path *C.char, writeBuffer C.size_t) *C.char {
	opened, err := leveldb.OpenFile(C.GoString(path), &opt.Options{WriteBuffer: int(writeBuffer)})
	db = opened
	return text(err)
}

//export recall_close
func recall_close() *C.char {
	return text(db.Close())
}

// The value is for the caller to free, and nil if there is none.
//
//export recall_get
func recall_get(key unsafe.Pointer, keySize C.size_t, value *unsafe.Pointer, size *C.size_t) *C.char {
	found, err := db.Get(bytes(key, keySize), nil)
	if err == leveldb.ErrNotFound {
		*value = nil
		return nil
	}
	if err == nil {
		*value, *size = C.CBytes(found), C.size_t(len(found))
	}
	return text(err)
}

//export recall_put
func recall_put(key unsafe.Pointer, keySize C.size_t, value unsafe.Pointer, size C.size_t) *C.char {
	return text(db.Put(bytes(key, keySize), bytes(value, size), synced))
}

//export recall_remove
func recall_remove(key unsafe.Pointer, keySize C.size_t) *C.char {
	return text(db.Delete(bytes(key, keySize), synced))
}

func main() {}
