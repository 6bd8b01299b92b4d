//! A serializer that writes canonical JSON straight into one buffer: an object's entries are put in order in place, once
//! the object is whole. Each event of a journal is written twice when it is made and once whenever it is read, so this is
//! where the time goes.

use std::cmp::Ordering;
use std::fmt::Display;

use serde::ser::{self, Error as _, Serialize};

type Error = serde_json::Error;

/// Numbers that are no integers of 64 bits are left to this crate's elder, which knows how doubles are written.
fn double(value: f64) -> Result<Vec<u8>, Error> {
    let text = serde_json_canonicalizer::to_vec(&value)?;
    match super::inexact(&text) {
        None => Ok(text),
        Some(number) => Err(beyond(number)),
    }
}

fn beyond(number: impl Display) -> Error {
    Error::custom(format!("the number {number} is beyond what JSON holds exactly (2^53 - 1)"))
}

/// An entry of an object that is being written: its place in the buffer, and where its key ends.
#[derive(Clone, Copy)]
struct Entry {
    start: usize,
    key_end: usize,
    end: usize,
    /// What orders most keys without a look at the buffer: their first eight bytes. `None` where code units and bytes may
    /// be ordered otherwise.
    head: Option<u64>,
}

impl Entry {
    /// The order of two entries by their keys, as these are written: by the code units of UTF-16 (RFC 8785, 3.2.3).
    fn by_key(&self, other: &Self, out: &[u8]) -> Ordering {
        let key = |entry: &Self| &out[entry.start..entry.key_end];
        let (Some(a), Some(b)) = (self.head, other.head) else {
            let units = |key: &[u8]| {
                let text: String = serde_json::from_slice(key).unwrap_or_default();
                text.encode_utf16().collect::<Vec<u16>>()
            };
            return units(key(self)).cmp(&units(key(other)));
        };
        a.cmp(&b).then_with(|| bare(key(self)).cmp(bare(key(other))))
    }
}

/// A key without its quotes: the closing one would sort a key behind one that it begins.
fn bare(key: &[u8]) -> &[u8] {
    key.get(1..key.len() - 1).unwrap_or_default()
}

/// The first eight bytes of a key of plain ASCII.
fn head(key: &[u8]) -> Option<u64> {
    let key = bare(key);
    if !key.iter().all(|byte| byte.is_ascii() && *byte != b'\\') {
        return None;
    }
    let mut first = [0; 8];
    let len = key.len().min(8);
    first[..len].copy_from_slice(&key[..len]);
    Some(u64::from_be_bytes(first))
}

pub(super) struct Writer {
    pub(super) out: Vec<u8>,
    /// Entries of all objects that are open, the innermost's last.
    entries: Vec<Entry>,
    scratch: Vec<u8>,
}

impl Writer {
    /// An empty one, with room for a usual event.
    pub(super) fn new() -> Self {
        Self { out: Vec::with_capacity(1024), entries: Vec::with_capacity(32), scratch: Vec::new() }
    }

    fn text(&mut self, text: &str) {
        self.out.push(b'"');
        let bytes = text.as_bytes();
        // Without a branch a byte, so that it is done many bytes at a time: most texts have nothing to escape.
        let escapes = |byte: u8| matches!(byte, 0..=0x1f | b'"' | b'\\');
        if !bytes.iter().fold(false, |any, byte| any | escapes(*byte)) {
            self.out.extend_from_slice(bytes);
            self.out.push(b'"');
            return;
        }
        let mut from = 0;
        for (at, byte) in bytes.iter().enumerate() {
            let short = match byte {
                b'"' => b'"',
                b'\\' => b'\\',
                0x08 => b'b',
                0x09 => b't',
                0x0a => b'n',
                0x0c => b'f',
                0x0d => b'r',
                0..=0x1f => 0,
                _ => continue,
            };
            self.out.extend_from_slice(&bytes[from..at]);
            from = at + 1;
            if short == 0 {
                let digit = |nibble: u8| b"0123456789abcdef"[usize::from(nibble)];
                self.out.extend_from_slice(&[b'\\', b'u', b'0', b'0', digit(byte >> 4), digit(byte & 15)]);
            } else {
                self.out.extend_from_slice(&[b'\\', short]);
            }
        }
        self.out.extend_from_slice(&bytes[from..]);
        self.out.push(b'"');
    }

    fn unsigned(&mut self, value: u64) -> Result<(), Error> {
        if value > super::LARGEST {
            return Err(beyond(value));
        }
        let mut digits = [0; 20];
        let mut at = digits.len();
        let mut left = value;
        loop {
            at -= 1;
            digits[at] = b'0' + (left % 10) as u8;
            left /= 10;
            if left == 0 {
                break;
            }
        }
        self.out.extend_from_slice(&digits[at..]);
        Ok(())
    }

    fn signed(&mut self, value: i64) -> Result<(), Error> {
        if value < 0 {
            self.out.push(b'-');
        }
        self.unsigned(value.unsigned_abs())
    }

    /// Puts the entries from `first` on in the order of their keys and forgets them. They are all that was written since
    /// the object's brace.
    fn close(&mut self, first: usize) -> Result<(), Error> {
        let Self { out, entries, scratch } = self;
        let mine = &mut entries[first..];
        let in_order = mine.windows(2).all(|pair| pair[0].by_key(&pair[1], out) == Ordering::Less);
        if !in_order {
            let begin = mine.first().map_or(out.len(), |entry| entry.start);
            mine.sort_by(|a, b| a.by_key(b, out));
            if mine.windows(2).any(|pair| pair[0].by_key(&pair[1], out) == Ordering::Equal) {
                return Err(Error::custom("an object has the same key twice"));
            }
            scratch.clear();
            for entry in mine.iter() {
                if !scratch.is_empty() {
                    scratch.push(b',');
                }
                scratch.extend_from_slice(&out[entry.start..entry.end]);
            }
            out.truncate(begin);
            out.extend_from_slice(scratch);
        }
        entries.truncate(first);
        out.push(b'}');
        Ok(())
    }
}

/// An array that is being written.
pub(super) struct List<'w> {
    writer: &'w mut Writer,
    first: bool,
    /// Braces to close behind the bracket: one where the array is a variant's content.
    wrapped: bool,
}

impl List<'_> {
    fn item(&mut self, value: &(impl Serialize + ?Sized)) -> Result<(), Error> {
        if !std::mem::take(&mut self.first) {
            self.writer.out.push(b',');
        }
        value.serialize(&mut *self.writer)
    }

    fn finish(self) {
        self.writer.out.extend_from_slice(if self.wrapped { b"]}" } else { b"]" });
    }
}

/// An object that is being written.
pub(super) struct Object<'w> {
    writer: &'w mut Writer,
    /// Its first entry among all that are open.
    first: usize,
    wrapped: bool,
    /// The entry at hand, which has no end yet.
    at: Entry,
}

impl Object<'_> {
    fn key(&mut self, key: &(impl Serialize + ?Sized)) -> Result<(), Error> {
        if self.writer.entries.len() > self.first {
            self.writer.out.push(b',');
        }
        let start = self.writer.out.len();
        key.serialize(&mut *self.writer)?;
        if self.writer.out.get(start) != Some(&b'"') {
            // A number as a key: its digits become a text.
            let digits = self.writer.out.split_off(start);
            if !digits.first().is_some_and(|byte| byte.is_ascii_digit() || *byte == b'-') {
                return Err(Error::custom("the key of an object must be a text"));
            }
            self.writer.out.push(b'"');
            self.writer.out.extend_from_slice(&digits);
            self.writer.out.push(b'"');
        }
        let key_end = self.writer.out.len();
        self.at = Entry { start, key_end, end: key_end, head: head(&self.writer.out[start..]) };
        self.writer.out.push(b':');
        Ok(())
    }

    fn value(&mut self, value: &(impl Serialize + ?Sized)) -> Result<(), Error> {
        value.serialize(&mut *self.writer)?;
        let end = self.writer.out.len();
        self.writer.entries.push(Entry { end, ..self.at });
        Ok(())
    }

    fn finish(self) -> Result<(), Error> {
        self.writer.close(self.first)?;
        if self.wrapped {
            self.writer.out.push(b'}');
        }
        Ok(())
    }
}

impl Writer {
    fn list(&mut self, wrapped: bool) -> List<'_> {
        self.out.push(b'[');
        List { writer: self, first: true, wrapped }
    }

    fn object(&mut self, wrapped: bool) -> Object<'_> {
        self.out.push(b'{');
        let at = Entry { start: 0, key_end: 0, end: 0, head: None };
        Object { first: self.entries.len(), writer: self, wrapped, at }
    }

    fn variant(&mut self, name: &str) {
        self.out.push(b'{');
        self.text(name);
        self.out.push(b':');
    }
}

impl<'w> ser::Serializer for &'w mut Writer {
    type Ok = ();
    type Error = Error;
    type SerializeSeq = List<'w>;
    type SerializeTuple = List<'w>;
    type SerializeTupleStruct = List<'w>;
    type SerializeTupleVariant = List<'w>;
    type SerializeMap = Object<'w>;
    type SerializeStruct = Object<'w>;
    type SerializeStructVariant = Object<'w>;

    fn serialize_bool(self, value: bool) -> Result<(), Error> {
        self.out.extend_from_slice(if value { b"true" } else { b"false" });
        Ok(())
    }
    fn serialize_i8(self, value: i8) -> Result<(), Error> {
        self.signed(value.into())
    }
    fn serialize_i16(self, value: i16) -> Result<(), Error> {
        self.signed(value.into())
    }
    fn serialize_i32(self, value: i32) -> Result<(), Error> {
        self.signed(value.into())
    }
    fn serialize_i64(self, value: i64) -> Result<(), Error> {
        self.signed(value)
    }
    fn serialize_i128(self, value: i128) -> Result<(), Error> {
        self.signed(i64::try_from(value).map_err(|_| beyond(value))?)
    }
    fn serialize_u8(self, value: u8) -> Result<(), Error> {
        self.unsigned(value.into())
    }
    fn serialize_u16(self, value: u16) -> Result<(), Error> {
        self.unsigned(value.into())
    }
    fn serialize_u32(self, value: u32) -> Result<(), Error> {
        self.unsigned(value.into())
    }
    fn serialize_u64(self, value: u64) -> Result<(), Error> {
        self.unsigned(value)
    }
    fn serialize_u128(self, value: u128) -> Result<(), Error> {
        self.unsigned(u64::try_from(value).map_err(|_| beyond(value))?)
    }
    fn serialize_f32(self, value: f32) -> Result<(), Error> {
        self.serialize_f64(value.into())
    }
    fn serialize_f64(self, value: f64) -> Result<(), Error> {
        self.out.extend_from_slice(&double(value)?);
        Ok(())
    }
    fn serialize_char(self, value: char) -> Result<(), Error> {
        self.text(value.encode_utf8(&mut [0; 4]));
        Ok(())
    }
    fn serialize_str(self, value: &str) -> Result<(), Error> {
        self.text(value);
        Ok(())
    }
    fn serialize_bytes(self, value: &[u8]) -> Result<(), Error> {
        let mut list = self.list(false);
        value.iter().try_for_each(|byte| list.item(byte))?;
        list.finish();
        Ok(())
    }
    fn serialize_none(self) -> Result<(), Error> {
        self.serialize_unit()
    }
    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result<(), Error> {
        value.serialize(self)
    }
    fn serialize_unit(self) -> Result<(), Error> {
        self.out.extend_from_slice(b"null");
        Ok(())
    }
    fn serialize_unit_struct(self, _: &'static str) -> Result<(), Error> {
        self.serialize_unit()
    }
    fn serialize_unit_variant(self, _: &'static str, _: u32, variant: &'static str) -> Result<(), Error> {
        self.text(variant);
        Ok(())
    }
    fn serialize_newtype_struct<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        value: &T,
    ) -> Result<(), Error> {
        value.serialize(self)
    }
    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        value: &T,
    ) -> Result<(), Error> {
        self.variant(variant);
        value.serialize(&mut *self)?;
        self.out.push(b'}');
        Ok(())
    }
    fn serialize_seq(self, _: Option<usize>) -> Result<List<'w>, Error> {
        Ok(self.list(false))
    }
    fn serialize_tuple(self, _: usize) -> Result<List<'w>, Error> {
        Ok(self.list(false))
    }
    fn serialize_tuple_struct(self, _: &'static str, _: usize) -> Result<List<'w>, Error> {
        Ok(self.list(false))
    }
    fn serialize_tuple_variant(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        _: usize,
    ) -> Result<List<'w>, Error> {
        self.variant(variant);
        Ok(self.list(true))
    }
    fn serialize_map(self, _: Option<usize>) -> Result<Object<'w>, Error> {
        Ok(self.object(false))
    }
    fn serialize_struct(self, name: &'static str, _: usize) -> Result<Object<'w>, Error> {
        if name.starts_with("$serde_json::private::") {
            // Text that serde_json would write as it stands.
            return Err(Error::custom("raw JSON is not canonical"));
        }
        Ok(self.object(false))
    }
    fn serialize_struct_variant(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        _: usize,
    ) -> Result<Object<'w>, Error> {
        self.variant(variant);
        Ok(self.object(true))
    }
}

impl ser::SerializeSeq for List<'_> {
    type Ok = ();
    type Error = Error;
    fn serialize_element<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Error> {
        self.item(value)
    }
    fn end(self) -> Result<(), Error> {
        self.finish();
        Ok(())
    }
}

impl ser::SerializeTuple for List<'_> {
    type Ok = ();
    type Error = Error;
    fn serialize_element<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Error> {
        self.item(value)
    }
    fn end(self) -> Result<(), Error> {
        self.finish();
        Ok(())
    }
}

impl ser::SerializeTupleStruct for List<'_> {
    type Ok = ();
    type Error = Error;
    fn serialize_field<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Error> {
        self.item(value)
    }
    fn end(self) -> Result<(), Error> {
        self.finish();
        Ok(())
    }
}

impl ser::SerializeTupleVariant for List<'_> {
    type Ok = ();
    type Error = Error;
    fn serialize_field<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Error> {
        self.item(value)
    }
    fn end(self) -> Result<(), Error> {
        self.finish();
        Ok(())
    }
}

impl ser::SerializeMap for Object<'_> {
    type Ok = ();
    type Error = Error;
    fn serialize_key<T: Serialize + ?Sized>(&mut self, key: &T) -> Result<(), Error> {
        self.key(key)
    }
    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Error> {
        self.value(value)
    }
    fn end(self) -> Result<(), Error> {
        self.finish()
    }
}

impl ser::SerializeStruct for Object<'_> {
    type Ok = ();
    type Error = Error;
    fn serialize_field<T: Serialize + ?Sized>(&mut self, key: &'static str, value: &T) -> Result<(), Error> {
        self.key(key)?;
        self.value(value)
    }
    fn end(self) -> Result<(), Error> {
        self.finish()
    }
}

impl ser::SerializeStructVariant for Object<'_> {
    type Ok = ();
    type Error = Error;
    fn serialize_field<T: Serialize + ?Sized>(&mut self, key: &'static str, value: &T) -> Result<(), Error> {
        self.key(key)?;
        self.value(value)
    }
    fn end(self) -> Result<(), Error> {
        self.finish()
    }
}
