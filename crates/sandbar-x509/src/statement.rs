//! X.509 certificates with P-256 keys, written and signed.

use std::{net::IpAddr, ops::RangeInclusive};

use aws_lc_rs::{
    digest,
    rand::{SecureRandom, SystemRandom},
    signature::{EcdsaKeyPair, KeyPair},
};
use jiff::Timestamp;
use sandbar_core::{Error, Result};

use crate::der::{bits, boolean, explicit, implicit, integer, object, octets, sequence, set, text, time};

/// A name a server is reached by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SubjectName {
    /// A host name; its first label may be `*`.
    Dns(String),
    Address(IpAddr),
}

/// What a certificate is for.
#[derive(Debug)]
pub(crate) enum Purpose<'a> {
    /// It signs certificates of servers, and none that sign others.
    Authority,
    /// It says that a server has these names.
    Server { names: &'a [SubjectName] },
}

/// What a certificate says.
#[derive(Debug)]
pub(crate) struct Statement<'a> {
    pub(crate) issuer: &'a str,
    pub(crate) subject: &'a str,
    /// The subject's public key, as a point.
    pub(crate) key: &'a [u8],
    pub(crate) valid: RangeInclusive<Timestamp>,
    pub(crate) purpose: Purpose<'a>,
}

impl Statement<'_> {
    /// The certificate, signed by its issuer's key.
    pub(crate) fn sign(&self, issuer_key: &EcdsaKeyPair) -> Result<Vec<u8>> {
        let random = SystemRandom::new();
        let failed = |_| Error::internal("sign a certificate");
        let mut serial = [0; 16];
        random.fill(&mut serial).map_err(failed)?;
        // Serial numbers are positive and not zero.
        serial[0] = serial[0] & 0x7f | 0x40;
        let algorithm = sequence(&[object([1, 2, 840, 10045, 4, 3, 2])]);
        let body = sequence(&[
            explicit(0, &integer(&[2])),
            integer(&serial),
            algorithm.clone(),
            name(self.issuer),
            sequence(&[time(*self.valid.start()), time(*self.valid.end())]),
            name(self.subject),
            public_key(self.key),
            explicit(3, &self.extensions(issuer_key.public_key().as_ref())),
        ]);
        let signature = issuer_key.sign(&random, &body).map_err(failed)?;
        Ok(sequence(&[body, algorithm, bits(0, signature.as_ref())]))
    }

    fn extensions(&self, issuer_key: &[u8]) -> Vec<u8> {
        match self.purpose {
            Purpose::Authority => sequence(&[
                // An authority without others below it.
                critical([2, 5, 29, 19], &sequence(&[boolean(true), integer(&[0])])),
                // It signs certificates: the sixth bit.
                critical([2, 5, 29, 15], &bits(2, &[0b0000_0100])),
                extension([2, 5, 29, 14], &octets(&key_identifier(self.key))),
            ]),
            Purpose::Server { names } => sequence(&[
                critical([2, 5, 29, 19], &sequence(&[])),
                // It signs handshakes: the first bit.
                critical([2, 5, 29, 15], &bits(7, &[0b1000_0000])),
                extension([2, 5, 29, 37], &sequence(&[object([1, 3, 6, 1, 5, 5, 7, 3, 1])])),
                extension([2, 5, 29, 17], &sequence(&names.iter().map(alternative_name).collect::<Vec<_>>())),
                extension([2, 5, 29, 14], &octets(&key_identifier(self.key))),
                extension([2, 5, 29, 35], &sequence(&[implicit(0, &key_identifier(issuer_key))])),
            ]),
        }
    }
}

/// A name that is one common name.
fn name(common: &str) -> Vec<u8> {
    sequence(&[set(&sequence(&[object([2, 5, 4, 3]), text(common)]))])
}

fn alternative_name(name: &SubjectName) -> Vec<u8> {
    match name {
        SubjectName::Dns(name) => implicit(2, name.as_bytes()),
        SubjectName::Address(IpAddr::V4(address)) => implicit(7, &address.octets()),
        SubjectName::Address(IpAddr::V6(address)) => implicit(7, &address.octets()),
    }
}

fn public_key(point: &[u8]) -> Vec<u8> {
    sequence(&[sequence(&[object([1, 2, 840, 10045, 2, 1]), object([1, 2, 840, 10045, 3, 1, 7])]), bits(0, point)])
}

/// Which key it is, in 20 bytes, as RFC 7093 says.
fn key_identifier(point: &[u8]) -> Vec<u8> {
    digest::digest(&digest::SHA256, point).as_ref()[..20].to_vec()
}

fn extension(id: [u32; 4], value: &[u8]) -> Vec<u8> {
    sequence(&[object(id), octets(value)])
}

fn critical(id: [u32; 4], value: &[u8]) -> Vec<u8> {
    sequence(&[object(id), boolean(true), octets(value)])
}
