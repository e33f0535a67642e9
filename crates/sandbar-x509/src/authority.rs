//! An authority, and the servers it vouches for.

use std::{fmt, sync::Arc};

use aws_lc_rs::signature::{EcdsaKeyPair, KeyPair as _};
use jiff::{SignedDuration, Timestamp};
use rustls::{
    crypto::aws_lc_rs::sign::any_ecdsa_type,
    pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, pem::PemObject as _},
    sign::{CertifiedKey, SigningKey},
};
use sandbar_core::{Error, Result};

use crate::{
    Purpose, Statement, SubjectName, certificate_pem,
    key::{key_from_pkcs8, new_key},
    private_key_pem, valid_until,
};

/// Clocks are not all right: what is made now was valid yesterday.
const BEFORE: SignedDuration = SignedDuration::from_hours(24);
/// Common names are at most this long.
const LONGEST_NAME: usize = 64;

/// Somebody who signs certificates of servers, and whom others trust because they were given its own.
pub struct Authority {
    key: EcdsaKeyPair,
    name: String,
    certificate: Vec<u8>,
    until: Timestamp,
}

impl Authority {
    /// A new one. Names that are too long are cut.
    pub fn new(name: &str, life: SignedDuration) -> Result<Self> {
        let key = new_key()?;
        let name = name[..name.floor_char_boundary(LONGEST_NAME)].to_owned();
        let now = Timestamp::now();
        let until = now + life;
        let certificate = Statement {
            issuer: &name,
            subject: &name,
            key: key.public_key().as_ref(),
            valid: now - BEFORE..=until,
            purpose: Purpose::Authority,
        }
        .sign(&key)?;
        Ok(Self { key, name, certificate, until })
    }

    /// One that was made under this name and [kept](Self::to_pem).
    pub fn from_pem(name: &str, pem: &str) -> Result<Self> {
        let broken = |source| Error::internal("this is no authority in PEM").with_source(source);
        let certificate = CertificateDer::from_pem_slice(pem.as_bytes()).map_err(broken)?;
        let key = PrivatePkcs8KeyDer::from_pem_slice(pem.as_bytes()).map_err(broken)?;
        let key = key_from_pkcs8(key.secret_pkcs8_der())?;
        let until = valid_until(&certificate).ok_or_else(|| Error::internal("this is no certificate"))?;
        // The certificate is our own: the public key stands in it as it is.
        let point = key.public_key().as_ref();
        if !certificate.windows(point.len()).any(|part| part == point) {
            return Err(Error::internal("the certificate of the authority is of another key"));
        }
        Ok(Self { key, name: name.to_owned(), certificate: certificate.to_vec(), until })
    }

    /// Certificate and key as text, to be kept where nobody else can read it.
    pub fn to_pem(&self) -> Result<String> {
        Ok(self.certificate_pem() + &private_key_pem(&self.key)?)
    }

    /// What others must trust, as text.
    pub fn certificate_pem(&self) -> String {
        certificate_pem(&self.certificate)
    }

    /// When it runs out.
    pub fn until(&self) -> Timestamp {
        self.until
    }

    /// What a server with this key needs to be the one with these names, and when that runs out: after `life`, or with
    /// the authority.
    pub fn certify(
        &self,
        names: &[SubjectName],
        key: &ServerKey,
        life: SignedDuration,
    ) -> Result<(CertifiedKey, Timestamp)> {
        let now = Timestamp::now();
        let until = (now + life).min(self.until);
        let subject = names.iter().find_map(|name| match name {
            SubjectName::Dns(name) if name.len() <= LONGEST_NAME => Some(name.as_str()),
            _ => None,
        });
        let certificate = Statement {
            issuer: &self.name,
            subject: subject.unwrap_or("Sandbar"),
            key: &key.public,
            valid: now - BEFORE..=until,
            purpose: Purpose::Server { names },
        }
        .sign(&self.key)?;
        Ok((CertifiedKey::new(vec![CertificateDer::from(certificate)], Arc::clone(&key.signing)), until))
    }
}

impl fmt::Debug for Authority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Authority").field("name", &self.name).finish_non_exhaustive()
    }
}

/// The key of a server, which may have any number of certificates.
pub struct ServerKey {
    public: Vec<u8>,
    signing: Arc<dyn SigningKey>,
}

impl ServerKey {
    pub fn new() -> Result<Self> {
        let key = new_key()?;
        let public = key.public_key().as_ref().to_vec();
        let private = key.to_pkcs8v1().map_err(|_| Error::internal("write a key for TLS"))?;
        let private = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(private.as_ref()));
        let signing =
            any_ecdsa_type(&private).map_err(|source| Error::internal("use a key for TLS").with_source(source))?;
        Ok(Self { public, signing })
    }
}

impl fmt::Debug for ServerKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerKey").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const YEAR: SignedDuration = SignedDuration::from_hours(365 * 24);

    #[test]
    fn an_authority_that_was_kept_goes_on_and_a_mixed_one_is_refused() {
        let made = Authority::new("kept", YEAR).unwrap();
        let restored = Authority::from_pem("kept", &made.to_pem().unwrap()).unwrap();
        assert_eq!(restored.certificate_pem(), made.certificate_pem());
        // Certificates count in seconds.
        assert_eq!(restored.until().as_second(), made.until().as_second());
        let other = Authority::new("kept", YEAR).unwrap().to_pem().unwrap();
        let (_, key_of_another) = other.split_once("-----BEGIN PRIVATE").unwrap();
        for bad in [
            String::new(),
            "nothing".to_owned(),
            made.certificate_pem(),
            format!("{}-----BEGIN PRIVATE{key_of_another}", made.certificate_pem()),
        ] {
            assert!(Authority::from_pem("kept", &bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn no_certificate_outlives_its_authority() {
        let authority = Authority::new("short", YEAR / 100).unwrap();
        let (_, until) = authority.certify(&[], &ServerKey::new().unwrap(), YEAR).unwrap();
        assert_eq!(until, authority.until());
    }
}
