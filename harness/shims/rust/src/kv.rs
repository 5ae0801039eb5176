//! kv.h in Rust: the contract's structures, and a driver for whatever is a `Store`. The build fails
//! where the structures differ from kv.h.
#![allow(non_camel_case_types)]
#![allow(dead_code)] // a store need not use all of it

use std::any::Any;
use std::cell::RefCell;
use std::error::Error;
use std::ffi::{CStr, CString, OsStr, c_char, c_int, c_void};
use std::os::unix::ffi::OsStrExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::{ptr, slice};

pub use header::*;

/// The constants, and the assertions of the layout; rust/layout.c writes them.
mod header {
    use super::*;
    use std::mem::offset_of;
    include!(env!("KV_LAYOUT"));
}

const _: () = assert!(KV_ABI == 5, "kv.h has a new ABI: follow it here");

#[repr(C)]
#[derive(Clone, Copy)]
pub struct kv_slice {
    data: *const u8,
    size: usize,
}

#[repr(C)]
pub struct kv_record {
    pub key: kv_slice,
    pub value: kv_slice,
}

#[repr(C)]
pub struct kv_option {
    name: *const c_char,
    value: *const c_char,
}

#[repr(C)]
pub struct kv_setting {
    name: *const c_char,
    value: *const c_char,
    least: u64,
    means: *const c_char,
    lacks: *const c_char,
}

type kv = *mut c_void;
type kv_visit = extern "C" fn(*mut c_void, kv_slice, kv_slice) -> c_int;

#[repr(C)]
pub struct kv_driver {
    pub abi: u32,
    pub capabilities: u32,
    pub name: *const c_char,
    pub max_key: u64,
    pub max_value: u64,
    pub settings: *const kv_setting,
    pub default_durability: *const c_char,
    pub version: extern "C" fn() -> *const c_char,
    pub error: extern "C" fn() -> *const c_char,
    pub open: unsafe extern "C" fn(*const c_char, *const kv_option, usize, *mut kv) -> c_int,
    pub close: unsafe extern "C" fn(kv) -> c_int,
    pub begin: Option<unsafe extern "C" fn(kv, *mut kv) -> c_int>,
    pub end: Option<unsafe extern "C" fn(kv) -> c_int>,
    pub get: unsafe extern "C" fn(kv, kv_slice, *mut u8, usize, *mut usize) -> c_int,
    pub write: unsafe extern "C" fn(kv, c_int, *const kv_record, usize) -> c_int,
    pub scan: Option<unsafe extern "C" fn(kv, kv_slice, c_int, kv_visit, *mut c_void) -> c_int>,
    pub compact: Option<unsafe extern "C" fn(kv) -> c_int>,
    pub backup: Option<unsafe extern "C" fn(kv, *const c_char) -> c_int>,
    pub sync: unsafe extern "C" fn(kv) -> c_int,
    pub effective_options: unsafe extern "C" fn(kv, *mut c_char, usize) -> c_int,
}

// Their addresses are those of constants.
unsafe impl Sync for kv_setting {}
unsafe impl Sync for kv_driver {}

/// An error's text becomes that of KV_ERROR.
pub type Outcome<T> = Result<T, Box<dyn Error>>;

/// An open store, which all threads share. What each function must do stands in kv.h.
pub trait Store: Sized + Sync {
    fn open(folder: &Path, options: Options) -> Outcome<Self>;
    fn close(self) -> Outcome<()>;
    /// Gives the value to `found` and returns its status.
    fn get(&self, key: &[u8], found: impl FnOnce(&[u8]) -> c_int) -> Outcome<c_int>;
    fn write(&self, mode: c_int, records: &[kv_record]) -> Outcome<c_int>;
    /// Ends when `visit` returns false.
    fn scan(
        &self,
        from: &[u8],
        backward: bool,
        visit: impl FnMut(&[u8], &[u8]) -> bool,
    ) -> Outcome<()>;
    fn compact(&self) -> Outcome<()> {
        Err("it has no such call".into())
    }
    fn sync(&self) -> Outcome<()>;
    fn effective_options(&self) -> Outcome<String>;
}

/// The functions of a driver; a store adds what describes it.
pub const fn driver<S: Store>() -> kv_driver {
    kv_driver {
        abi: KV_ABI as u32,
        capabilities: 0,
        name: ptr::null(),
        max_key: 0,
        max_value: 0,
        settings: ptr::null(),
        default_durability: ptr::null(),
        version,
        error,
        open: open::<S>,
        close: close::<S>,
        begin: None,
        end: None,
        get: get::<S>,
        write: write::<S>,
        scan: Some(scan::<S>),
        compact: None,
        backup: None,
        sync: sync::<S>,
        effective_options: effective_options::<S>,
    }
}

impl kv_setting {
    pub const END: Self = Self::row(ptr::null(), ptr::null(), 0);

    const fn row(name: *const c_char, value: *const c_char, least: u64) -> Self {
        let (means, lacks) = (ptr::null(), ptr::null());
        Self { name, value, least, means, lacks }
    }

    /// A value that is allowed.
    pub const fn allows(name: &'static CStr, value: &'static CStr, means: &'static CStr) -> Self {
        Self { means: means.as_ptr(), ..Self::row(name.as_ptr(), value.as_ptr(), 0) }
    }

    /// A whole number.
    pub const fn number(name: &'static CStr, least: u64, means: &'static CStr) -> Self {
        Self { means: means.as_ptr(), ..Self::row(name.as_ptr(), ptr::null(), least) }
    }

    /// A value that the store does not have.
    pub const fn lacks(name: &'static CStr, value: &'static CStr, lacks: &'static CStr) -> Self {
        Self { lacks: lacks.as_ptr(), ..Self::row(name.as_ptr(), value.as_ptr(), 0) }
    }
}

impl kv_slice {
    /// Valid as long as the call that was given it.
    pub fn bytes(&self) -> &[u8] {
        unsafe { slice::from_raw_parts(self.data, self.size) }
    }

    fn of(bytes: &[u8]) -> Self {
        Self { data: bytes.as_ptr(), size: bytes.len() }
    }
}

/// What open was given.
pub struct Options<'a>(&'a [kv_option]);

impl<'a> Options<'a> {
    /// The value given for a setting; None where none is: as shipped.
    pub fn given(&self, name: &str) -> Option<&'a str> {
        let text = |text| unsafe { CStr::from_ptr(text) }.to_str().ok();
        let option = self.0.iter().find(|option| text(option.name) == Some(name))?;
        text(option.value)
    }

    pub fn is(&self, name: &str, value: &str) -> bool {
        self.given(name) == Some(value)
    }

    pub fn number(&self, name: &str) -> Option<u64> {
        self.given(name)?.parse().ok()
    }
}

/// The status of a write in this mode to a key that exists or not.
pub fn allowed(mode: c_int, exists: bool) -> c_int {
    match (mode, exists) {
        (KV_INSERT, true) => KV_EXISTS,
        (KV_UPDATE | KV_REMOVE, false) => KV_NOT_FOUND,
        _ => KV_OK,
    }
}

thread_local! {
    static MESSAGE: RefCell<CString> = RefCell::default();
}

fn fail(message: String) -> c_int {
    MESSAGE.set(CString::new(message.replace('\0', " ")).unwrap_or_default());
    KV_ERROR
}

fn said(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or(panic.downcast_ref::<&str>().copied()).unwrap_or("no word")
}

/// The status of a call; an error or a panic is KV_ERROR with its text.
fn status(call: impl FnOnce() -> Outcome<c_int>) -> c_int {
    match catch_unwind(AssertUnwindSafe(call)) {
        Ok(Ok(status)) => status,
        Ok(Err(error)) => fail(error.to_string()),
        Err(panic) => fail(format!("panic: {}", said(&*panic))),
    }
}

fn done(call: impl FnOnce() -> Outcome<()>) -> c_int {
    status(|| call().map(|()| KV_OK))
}

/// `count` may be 0 and `first` NULL.
unsafe fn array<'a, T>(first: *const T, count: usize) -> &'a [T] {
    if count == 0 { &[] } else { unsafe { slice::from_raw_parts(first, count) } }
}

unsafe fn store<'a, S>(kv: kv) -> &'a S {
    unsafe { &*kv.cast() }
}

extern "C" fn version() -> *const c_char {
    concat!(env!("KV_VERSION"), "\0").as_ptr().cast()
}

extern "C" fn error() -> *const c_char {
    MESSAGE.with_borrow(|message| message.as_ptr())
}

unsafe extern "C" fn open<S: Store>(
    path: *const c_char,
    options: *const kv_option,
    count: usize,
    kv: *mut kv,
) -> c_int {
    done(|| unsafe {
        let folder = Path::new(OsStr::from_bytes(CStr::from_ptr(path).to_bytes()));
        *kv = Box::into_raw(Box::new(S::open(folder, Options(array(options, count)))?)).cast();
        Ok(())
    })
}

unsafe extern "C" fn close<S: Store>(kv: kv) -> c_int {
    done(|| unsafe { Box::from_raw(kv.cast::<S>()) }.close())
}

unsafe extern "C" fn get<S: Store>(
    kv: kv,
    key: kv_slice,
    buffer: *mut u8,
    capacity: usize,
    size: *mut usize,
) -> c_int {
    let copy = |value: &[u8]| unsafe {
        *size = value.len();
        if value.len() > capacity {
            return KV_TOO_LARGE;
        }
        ptr::copy_nonoverlapping(value.as_ptr(), buffer, value.len());
        KV_OK
    };
    status(|| unsafe { store::<S>(kv) }.get(key.bytes(), copy))
}

unsafe extern "C" fn write<S: Store>(
    kv: kv,
    mode: c_int,
    records: *const kv_record,
    count: usize,
) -> c_int {
    status(|| unsafe { store::<S>(kv).write(mode, array(records, count)) })
}

unsafe extern "C" fn scan<S: Store>(
    kv: kv,
    from: kv_slice,
    direction: c_int,
    visit: kv_visit,
    context: *mut c_void,
) -> c_int {
    let visit =
        |key: &[u8], value: &[u8]| visit(context, kv_slice::of(key), kv_slice::of(value)) == 0;
    let backward = direction == KV_BACKWARD;
    done(|| unsafe { store::<S>(kv) }.scan(from.bytes(), backward, visit))
}

/// For the driver's `compact`, where the store has it.
pub unsafe extern "C" fn compact<S: Store>(kv: kv) -> c_int {
    done(|| unsafe { store::<S>(kv) }.compact())
}

unsafe extern "C" fn sync<S: Store>(kv: kv) -> c_int {
    done(|| unsafe { store::<S>(kv) }.sync())
}

unsafe extern "C" fn effective_options<S: Store>(
    kv: kv,
    text: *mut c_char,
    capacity: usize,
) -> c_int {
    done(|| {
        let said = unsafe { store::<S>(kv) }.effective_options()?;
        let size = said.len().min(capacity.saturating_sub(1));
        if capacity > 0 {
            unsafe {
                ptr::copy_nonoverlapping(said.as_ptr(), text.cast(), size);
                *text.add(size) = 0;
            }
        }
        Ok(())
    })
}
