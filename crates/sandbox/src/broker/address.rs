//! The address in a call to `connect`, out of the caller's memory.

use std::ffi::OsStr;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use rustix::io::Errno;

/// Longest address that the kernel takes (`sockaddr_storage`).
pub(super) const LONGEST: usize = 128;

/// Where a caller wants to be connected to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Address {
    Internet(SocketAddr),
    Path(PathBuf),
    /// A unix socket without a path.
    Abstract,
    /// Of another family, or of none.
    Other,
}

impl Address {
    /// Reads an address as the kernel would; its errors are those that `connect` has then.
    pub(super) fn parse(bytes: &[u8]) -> Result<Self, Errno> {
        let (family, rest) = bytes.split_first_chunk::<2>().ok_or(Errno::INVAL)?;
        match i32::from(u16::from_ne_bytes(*family)) {
            libc::AF_INET => {
                let [high, low, a, b, c, d, ..] = *rest else { return Err(Errno::INVAL) };
                // The rest of the 16 bytes is padding, and has to be there.
                if bytes.len() < 16 {
                    return Err(Errno::INVAL);
                }
                let address = IpAddr::V4(Ipv4Addr::new(a, b, c, d));
                Ok(Self::Internet(SocketAddr::new(address, u16::from_be_bytes([high, low]))))
            }
            libc::AF_INET6 => {
                let port = rest.first_chunk::<2>().ok_or(Errno::INVAL)?;
                let address = rest.get(6..22).and_then(|part| part.first_chunk::<16>());
                // An IPv4 address in IPv6 is that one.
                let address = IpAddr::V6(Ipv6Addr::from(*address.ok_or(Errno::INVAL)?)).to_canonical();
                Ok(Self::Internet(SocketAddr::new(address, u16::from_be_bytes(*port))))
            }
            libc::AF_UNIX => match rest {
                [] => Err(Errno::INVAL),
                [0, ..] => Ok(Self::Abstract),
                path => {
                    // Its end is a NUL or the end of the address.
                    let end = path.iter().position(|byte| *byte == 0).unwrap_or(path.len());
                    if end > 108 {
                        return Err(Errno::INVAL);
                    }
                    Ok(Self::Path(OsStr::from_bytes(&path[..end]).into()))
                }
            },
            _ => Ok(Self::Other),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(family: i32, rest: &[u8]) -> Vec<u8> {
        [&(family as u16).to_ne_bytes(), rest].concat()
    }

    #[test]
    fn addresses_are_read_as_the_kernel_reads_them() {
        let v4 = address(libc::AF_INET, &[1, 187, 10, 1, 2, 3, 0, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(Address::parse(&v4), Ok(Address::Internet("10.1.2.3:443".parse().unwrap())));
        let mut mapped = vec![1, 187, 0, 0, 0, 0];
        mapped.extend([0; 10]);
        mapped.extend([255, 255, 10, 1, 2, 3, 0, 0, 0, 0]);
        let mapped = address(libc::AF_INET6, &mapped);
        assert_eq!(Address::parse(&mapped), Ok(Address::Internet("10.1.2.3:443".parse().unwrap())));
        let path = |bytes: &[u8]| Address::parse(&address(libc::AF_UNIX, bytes));
        assert_eq!(path(b"/run/a\0/run/b"), Ok(Address::Path("/run/a".into())));
        assert_eq!(path(b"sock"), Ok(Address::Path("sock".into())));
        assert_eq!(path(b"\0name"), Ok(Address::Abstract));
        assert_eq!(path(b""), Err(Errno::INVAL));
        assert_eq!(path(&[b'a'; 120]), Err(Errno::INVAL));
        assert_eq!(Address::parse(&address(libc::AF_UNSPEC, &[0; 14])), Ok(Address::Other));
        for short in [&v4[..15], &mapped[..20], &v4[..1], &[]] {
            assert_eq!(Address::parse(short), Err(Errno::INVAL), "{short:?}");
        }
    }
}
