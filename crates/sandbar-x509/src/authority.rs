//! A certificate authority and its server certificates.

use std::{fmt, net::IpAddr, sync::Arc, time::SystemTime};

use aws_lc_rs::{digest, rand};
use jiff::{SignedDuration, Timestamp};
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyIdMethod, KeyPair, KeyUsagePurpose, PKCS_ECDSA_P256_SHA256, SanType, SerialNumber,
};
use rustls::{
    crypto::aws_lc_rs::sign::any_ecdsa_type,
    pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, pem::PemObject as _},
    sign::{CertifiedKey, SigningKey},
};
use sandbar_core::{Error, Result};

use crate::valid_until;

/// Certificates are valid from this long ago, for clients whose clock is slow.
const CLOCK_SKEW: SignedDuration = SignedDuration::from_hours(24);
/// Upper bound of X.520 for common names.
const MAX_COMMON_NAME: usize = 64;
const END_OF_CERTIFICATE: &str = "-----END CERTIFICATE-----\n";

/// A name a server is reached by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SubjectName {
    /// A host name; its first label may be `*`.
    Dns(String),
    Address(IpAddr),
}

/// Certificate authority that signs server certificates only (path length 0).
pub struct Authority {
    // Boxed: an authority is a variant of small enums.
    issuer: Box<Issuer<'static, KeyPair>>,
    name: String,
    certificate_pem: String,
    until: Timestamp,
}

impl Authority {
    /// Creates an authority with a new key. A name that is too long is truncated.
    pub fn new(name: &str, life: SignedDuration) -> Result<Self> {
        let key = new_key()?;
        let name = name[..name.floor_char_boundary(MAX_COMMON_NAME)].to_owned();
        let until = Timestamp::now() + life;
        let mut params = authority_params(&name, &key);
        set_validity(&mut params, until)?;
        let certificate = params
            .self_signed(&key)
            .map_err(|error| failed("sign a certificate", error))?;
        Ok(Self {
            issuer: Box::new(Issuer::new(params, key)),
            name,
            certificate_pem: certificate.pem(),
            until,
        })
    }

    /// Restores an authority that was created with this name, from the output of
    /// [`to_pem`](Self::to_pem).
    pub fn from_pem(name: &str, pem: &str) -> Result<Self> {
        let broken =
            |source| Error::internal("the PEM text is not an authority").with_source(source);
        let certificate = CertificateDer::from_pem_slice(pem.as_bytes()).map_err(broken)?;
        let key = PrivatePkcs8KeyDer::from_pem_slice(pem.as_bytes()).map_err(broken)?;
        let key = KeyPair::from_pkcs8_der_and_sign_algo(&key, &PKCS_ECDSA_P256_SHA256)
            .map_err(|error| failed("read a P-256 key", error))?;
        let until = valid_until(&certificate)
            .ok_or_else(|| Error::internal("the PEM text is not a certificate"))?;
        CertifiedKey::new(vec![certificate], signing_key(&key)?)
            .keys_match()
            .map_err(|error| {
                Error::internal("the certificate of the authority belongs to another key")
                    .with_source(error)
            })?;
        let end = pem
            .find(END_OF_CERTIFICATE)
            .map_or(pem.len(), |start| start + END_OF_CERTIFICATE.len());
        let issuer = Box::new(Issuer::new(authority_params(name, &key), key));
        Ok(Self {
            issuer,
            name: name.to_owned(),
            certificate_pem: pem[..end].to_owned(),
            until,
        })
    }

    /// Returns certificate and private key as text.
    pub fn to_pem(&self) -> String {
        self.certificate_pem.clone() + &self.issuer.key().serialize_pem()
    }

    /// Returns the certificate clients have to trust, as text.
    pub fn certificate_pem(&self) -> &str {
        &self.certificate_pem
    }

    /// Returns when the authority expires.
    pub fn until(&self) -> Timestamp {
        self.until
    }

    /// Signs a certificate for a server with this key and these names. Returns it with its expiry:
    /// after `life`, or that of the authority if it is earlier.
    pub fn certify(
        &self,
        names: &[SubjectName],
        key: &ServerKey,
        life: SignedDuration,
    ) -> Result<(CertifiedKey, Timestamp)> {
        let until = (Timestamp::now() + life).min(self.until);
        let subject = names.iter().find_map(|name| match name {
            SubjectName::Dns(name) if name.len() <= MAX_COMMON_NAME => Some(name.as_str()),
            _ => None,
        });
        let mut params = CertificateParams::default();
        params.distinguished_name = common_name(subject.unwrap_or("Sandbar"));
        params.subject_alt_names = names.iter().map(alternative_name).collect::<Result<_>>()?;
        params.is_ca = IsCa::ExplicitNoCa;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        params.use_authority_key_identifier_extension = true;
        set_validity(&mut params, until)?;
        let certificate = params
            .signed_by(&key.pair, &self.issuer)
            .map_err(|error| failed("sign a certificate", error))?;
        Ok((
            CertifiedKey::new(vec![certificate.into()], Arc::clone(&key.signing)),
            until,
        ))
    }
}

impl fmt::Debug for Authority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Authority")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

/// Private key of a server. It may have any number of certificates.
pub struct ServerKey {
    pair: KeyPair,
    signing: Arc<dyn SigningKey>,
}

impl ServerKey {
    pub fn new() -> Result<Self> {
        let pair = new_key()?;
        let signing = signing_key(&pair)?;
        Ok(Self { pair, signing })
    }
}

impl fmt::Debug for ServerKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerKey").finish_non_exhaustive()
    }
}

fn new_key() -> Result<KeyPair> {
    KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256)
        .map_err(|error| failed("create a TLS key", error))
}

fn signing_key(key: &KeyPair) -> Result<Arc<dyn SigningKey>> {
    let private = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialized_der()));
    any_ecdsa_type(&private).map_err(|source| Error::internal("load a TLS key").with_source(source))
}

fn authority_params(name: &str, key: &KeyPair) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = common_name(name);
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
    params.key_identifier_method = KeyIdMethod::PreSpecified(key_identifier(key));
    params
}

/// Returns the key identifier by method 1 of RFC 7093. rcgen would hash the algorithm too, but
/// stored authorities have this identifier in their certificate, and server certificates must
/// repeat it.
fn key_identifier(key: &KeyPair) -> Vec<u8> {
    digest::digest(&digest::SHA256, key.public_key_raw()).as_ref()[..20].to_vec()
}

/// Sets the period of validity, and a random serial number: rcgen's would be the same for every
/// certificate of a key.
fn set_validity(params: &mut CertificateParams, until: Timestamp) -> Result<()> {
    let mut serial = [0; 16];
    rand::fill(&mut serial).map_err(|_| Error::internal("create a serial number"))?;
    // Serial numbers are positive and not zero.
    serial[0] = serial[0] & 0x7f | 0x40;
    params.serial_number = Some(SerialNumber::from_slice(&serial));
    params.not_before = SystemTime::from(Timestamp::now() - CLOCK_SKEW).into();
    params.not_after = SystemTime::from(until).into();
    Ok(())
}

fn common_name(name: &str) -> DistinguishedName {
    let mut subject = DistinguishedName::new();
    subject.push(DnType::CommonName, name);
    subject
}

fn alternative_name(name: &SubjectName) -> Result<SanType> {
    match name {
        SubjectName::Dns(name) => name
            .as_str()
            .try_into()
            .map(SanType::DnsName)
            .map_err(|error| failed("put a name in a certificate", error)),
        SubjectName::Address(address) => Ok(SanType::IpAddress(*address)),
    }
}

fn failed(what: &str, error: rcgen::Error) -> Error {
    Error::internal(what).with_source(error)
}

#[cfg(test)]
mod tests {
    use super::*;

    const YEAR: SignedDuration = SignedDuration::from_hours(365 * 24);

    #[test]
    fn stored_authority_is_restored_and_a_mixed_one_refused() {
        let made = Authority::new("kept", YEAR).unwrap();
        let restored = Authority::from_pem("kept", &made.to_pem()).unwrap();
        assert_eq!(restored.certificate_pem(), made.certificate_pem());
        assert_eq!(restored.to_pem(), made.to_pem());
        // Certificates have a resolution of one second.
        assert_eq!(restored.until().as_second(), made.until().as_second());
        let other = Authority::new("kept", YEAR).unwrap().to_pem();
        let (_, key_of_another) = other.split_once("-----BEGIN PRIVATE").unwrap();
        for bad in [
            String::new(),
            "nothing".to_owned(),
            made.certificate_pem().to_owned(),
            format!(
                "{}-----BEGIN PRIVATE{key_of_another}",
                made.certificate_pem()
            ),
        ] {
            assert!(Authority::from_pem("kept", &bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn certificate_does_not_outlive_its_authority() {
        let authority = Authority::new("short", YEAR / 100).unwrap();
        let (_, until) = authority
            .certify(&[], &ServerKey::new().unwrap(), YEAR)
            .unwrap();
        assert_eq!(until, authority.until());
    }

    #[test]
    fn certificates_have_the_key_identifier_of_the_authority() {
        let made = Authority::new("kept", YEAR).unwrap();
        let restored = Authority::from_pem("kept", &made.to_pem()).unwrap();
        let own = CertificateDer::from_pem_slice(made.certificate_pem().as_bytes()).unwrap();
        let (server, _) = restored
            .certify(&[], &ServerKey::new().unwrap(), YEAR)
            .unwrap();
        let identifier = key_identifier(made.issuer.key());
        for certificate in [&own, &server.cert[0]] {
            assert!(
                certificate
                    .windows(identifier.len())
                    .any(|part| part == identifier)
            );
        }
    }

    #[test]
    fn certificates_of_one_key_have_different_serial_numbers() {
        let authority = Authority::new("one", YEAR).unwrap();
        let key = ServerKey::new().unwrap();
        let serial = || {
            let (server, _) = authority.certify(&[], &key, YEAR).unwrap();
            // After two sequence headers, the version, and the tag and length of the number.
            server.cert[0][8 + 5 + 2..][..16].to_vec()
        };
        assert_ne!(serial(), serial());
    }
}
