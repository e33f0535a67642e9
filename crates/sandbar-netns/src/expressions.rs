//! nftables rules and their expressions.

use std::net::IpAddr;

use crate::{
    addresses::{family, octets},
    netlink::Attributes,
};

const RULE_EXPRESSIONS: u16 = 4;
const LIST_ELEMENT: u16 = 1;
const EXPRESSION_NAME: u16 = 1;
const EXPRESSION_DATA: u16 = 2;
const DATA_VALUE: u16 = 1;
const DATA_VERDICT: u16 = 2;
const VERDICT_CODE: u16 = 1;

const VERDICT: u32 = 0;
const REGISTER: u32 = 1;
const SECOND_REGISTER: u32 = 2;

const META_FAMILY: u32 = 15;
const META_PROTOCOL: u32 = 16;
const NETWORK_HEADER: u32 = 1;
const TRANSPORT_HEADER: u32 = 2;
const IPV4_DESTINATION: u32 = 16;
const IPV6_DESTINATION: u32 = 24;
const DESTINATION_PORT: u32 = 2;
const EQUAL: u32 = 0;
const SOCKET_TRANSPARENT: u32 = 0;
const REJECT_BY_RESET: u32 = 1;
const REJECT_BY_ICMP: u32 = 2;
const PORT_UNREACHABLE: u8 = 1;
const ACCEPT: u32 = 1;

const DNS: u16 = 53;

/// Conditions, and the verdict for a packet that meets them all.
#[derive(Debug, Default)]
pub(crate) struct Rule {
    expressions: Vec<Expression>,
}

#[derive(Debug)]
enum Expression {
    /// Loads metadata of the packet into the register.
    Meta(u32),
    Payload {
        header: u32,
        offset: u32,
        length: u32,
    },
    SocketIsTransparent,
    Equals(Vec<u8>),
    Load(u32, Vec<u8>),
    Accept,
    /// Assigns the packet to the transparent socket at the address in the first register, and at
    /// the port in the second, or else the packet's destination port.
    Proxy {
        family: u8,
        has_port: bool,
    },
    Reset,
    Refuse,
}

impl Rule {
    pub(crate) fn of_family(address: IpAddr) -> Self {
        Self::default()
            .with(Expression::Meta(META_FAMILY))
            .with(Expression::Equals(vec![family(address)]))
    }

    /// Matches packets to an address; for IPv4 loopback, to 127.0.0.0/8.
    pub(crate) fn to(address: IpAddr) -> Self {
        let offset = if address.is_ipv4() {
            IPV4_DESTINATION
        } else {
            IPV6_DESTINATION
        };
        let mut bytes = octets(address);
        if address.is_ipv4() && address.is_loopback() {
            bytes.truncate(1);
        }
        let length = u32::try_from(bytes.len()).unwrap_or_default();
        Self::of_family(address)
            .with(Expression::Payload {
                header: NETWORK_HEADER,
                offset,
                length,
            })
            .with(Expression::Equals(bytes))
    }

    pub(crate) fn tcp(self) -> Self {
        self.protocol(libc::IPPROTO_TCP)
    }

    pub(crate) fn udp(self) -> Self {
        self.protocol(libc::IPPROTO_UDP)
    }

    /// Matches ICMPv6 messages of this type.
    pub(crate) fn icmpv6(self, kind: u8) -> Self {
        self.protocol(libc::IPPROTO_ICMPV6)
            .with(Expression::Payload {
                header: TRANSPORT_HEADER,
                offset: 0,
                length: 1,
            })
            .with(Expression::Equals(vec![kind]))
    }

    fn protocol(self, number: i32) -> Self {
        self.with(Expression::Meta(META_PROTOCOL))
            .with(Expression::Equals(vec![number.to_le_bytes()[0]]))
    }

    /// Matches destination port 53.
    pub(crate) fn dns(self) -> Self {
        self.with(Expression::Payload {
            header: TRANSPORT_HEADER,
            offset: DESTINATION_PORT,
            length: 2,
        })
        .with(Expression::Equals(DNS.to_be_bytes().to_vec()))
    }

    /// Matches packets for a socket of the session. Those of the host are transparent.
    pub(crate) fn has_own_socket(self) -> Self {
        self.with(Expression::SocketIsTransparent)
            .with(Expression::Equals(vec![0]))
    }

    /// Delivers to the transparent socket at this address. Without such a socket, the rule does not
    /// match.
    pub(crate) fn hand_to(self, address: IpAddr, port: Option<u16>) -> Self {
        let mut rule = self.with(Expression::Load(REGISTER, octets(address)));
        if let Some(port) = port {
            rule = rule.with(Expression::Load(
                SECOND_REGISTER,
                port.to_be_bytes().to_vec(),
            ));
        }
        rule.with(Expression::Proxy {
            family: family(address),
            has_port: port.is_some(),
        })
    }

    pub(crate) fn accept(self) -> Self {
        self.with(Expression::Accept)
    }

    pub(crate) fn reset(self) -> Self {
        self.with(Expression::Reset)
    }

    pub(crate) fn refuse(self) -> Self {
        self.with(Expression::Refuse)
    }

    fn with(mut self, expression: Expression) -> Self {
        self.expressions.push(expression);
        self
    }

    pub(crate) fn write(&self, rule: &mut Attributes<'_>) {
        rule.nest(RULE_EXPRESSIONS, |list| {
            for expression in &self.expressions {
                list.nest(LIST_ELEMENT, |element| {
                    element.add_text(EXPRESSION_NAME, expression.name());
                    element.nest(EXPRESSION_DATA, |data| expression.write(data));
                });
            }
        });
    }
}

impl Expression {
    fn name(&self) -> &'static str {
        match self {
            Self::Meta(_) => "meta",
            Self::Payload { .. } => "payload",
            Self::SocketIsTransparent => "socket",
            Self::Equals(_) => "cmp",
            Self::Load(..) | Self::Accept => "immediate",
            Self::Proxy { .. } => "tproxy",
            Self::Reset | Self::Refuse => "reject",
        }
    }

    /// Writes the attributes, numbered as in `linux/netfilter/nf_tables.h` for each kind of
    /// expression.
    fn write(&self, data: &mut Attributes<'_>) {
        let mut number = |kind: u16, value: u32| data.add(kind, &value.to_be_bytes());
        match self {
            Self::Meta(key) => {
                number(1, REGISTER);
                number(2, *key);
            }
            Self::Payload {
                header,
                offset,
                length,
            } => {
                number(1, REGISTER);
                number(2, *header);
                number(3, *offset);
                number(4, *length);
            }
            Self::SocketIsTransparent => {
                number(1, SOCKET_TRANSPARENT);
                number(2, REGISTER);
            }
            Self::Equals(value) => {
                number(1, REGISTER);
                number(2, EQUAL);
                data.nest(3, |data| data.add(DATA_VALUE, value));
            }
            Self::Load(register, value) => {
                number(1, *register);
                data.nest(2, |data| data.add(DATA_VALUE, value));
            }
            Self::Accept => {
                number(1, VERDICT);
                data.nest(2, |data| {
                    data.nest(DATA_VERDICT, |code| {
                        code.add(VERDICT_CODE, &ACCEPT.to_be_bytes());
                    });
                });
            }
            Self::Proxy { family, has_port } => {
                number(1, u32::from(*family));
                number(2, REGISTER);
                if *has_port {
                    number(3, SECOND_REGISTER);
                }
            }
            Self::Reset => number(1, REJECT_BY_RESET),
            Self::Refuse => {
                number(1, REJECT_BY_ICMP);
                data.add(2, &[PORT_UNREACHABLE]);
            }
        }
    }
}
