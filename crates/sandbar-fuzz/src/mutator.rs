//! New inputs from old ones.

use fastrand::Rng;

/// No input is longer.
pub const LONGEST: usize = 4096;

/// Numbers parsers are afraid of.
const NUMBERS: [u64; 16] = [
    0,
    1,
    2,
    0x7f,
    0x80,
    0xff,
    0x100,
    0x7fff,
    0xffff,
    0x1_0000,
    0x7fff_ffff,
    0x8000_0000,
    0xffff_ffff,
    0x1_0000_0000,
    0x7fff_ffff_ffff_ffff,
    u64::MAX,
];

/// Changes inputs at random, the same way for the same seed.
#[derive(Debug)]
pub struct Mutator {
    random: Rng,
    words: Vec<Vec<u8>>,
}

impl Mutator {
    pub fn new(seed: u64, words: &[&str]) -> Self {
        Self { random: Rng::with_seed(seed), words: words.iter().map(|word| word.as_bytes().to_vec()).collect() }
    }

    pub fn random(&mut self) -> &mut Rng {
        &mut self.random
    }

    /// Changes `input` in a few places. `other` lends parts; `compared` are numbers the target compared last time.
    pub fn mutate(&mut self, input: &mut Vec<u8>, other: &[u8], compared: &[(u64, u64, u8)]) {
        for _ in 0..=self.random.usize(..4) {
            self.change(input, other, compared);
        }
        input.truncate(LONGEST);
    }

    fn change(&mut self, input: &mut Vec<u8>, other: &[u8], compared: &[(u64, u64, u8)]) {
        match self.random.u32(..14) {
            0 | 1 if !input.is_empty() => {
                let at = self.random.usize(..input.len());
                input[at] ^= 1 << self.random.u32(..8);
            }
            2 if !input.is_empty() => {
                let at = self.random.usize(..input.len());
                input[at] = self.random.u8(..);
            }
            3 if !input.is_empty() => {
                let at = self.random.usize(..input.len());
                input[at] = input[at].wrapping_add_signed(self.random.i8(-16..=16));
            }
            4 => {
                let piece: Vec<u8> = (0..=self.random.usize(..8)).map(|_| self.random.u8(..)).collect();
                self.insert(input, &piece);
            }
            5 if !input.is_empty() => {
                let (start, end) = self.part(input);
                input.drain(start..end);
            }
            6 if !input.is_empty() => {
                let (start, end) = self.part(input);
                let copy = input[start..end].repeat(self.random.usize(1..4));
                self.insert(input, &copy);
            }
            7 if !other.is_empty() => {
                let (start, end) = self.part(other);
                self.insert(input, &other[start..end]);
            }
            8 if !other.is_empty() => {
                input.truncate(self.random.usize(..=input.len()));
                input.extend_from_slice(&other[self.random.usize(..other.len())..]);
            }
            9 => {
                let number = NUMBERS[self.random.usize(..NUMBERS.len())];
                let piece = self.spelled(number);
                self.overwrite(input, &piece);
            }
            10 => {
                let number = NUMBERS[self.random.usize(..NUMBERS.len())].wrapping_add(self.random.u64(..3));
                self.insert(input, number.to_string().as_bytes());
            }
            11 | 12 if !self.words.is_empty() => {
                let word = self.words[self.random.usize(..self.words.len())].clone();
                if self.random.bool() {
                    self.insert(input, &word);
                } else {
                    self.overwrite(input, &word);
                }
            }
            _ if !compared.is_empty() => {
                let comparison = compared[self.random.usize(..compared.len())];
                self.satisfy(input, comparison);
            }
            _ => {}
        }
    }

    /// Puts one side of a comparison where the other one stands.
    fn satisfy(&mut self, input: &mut Vec<u8>, (one, other, width): (u64, u64, u8)) {
        let (wanted, found) = if self.random.bool() { (one, other) } else { (other, one) };
        let width = usize::from(width).clamp(1, 8);
        let pairs = [
            (wanted.to_le_bytes()[..width].to_vec(), found.to_le_bytes()[..width].to_vec()),
            (wanted.to_be_bytes()[8 - width..].to_vec(), found.to_be_bytes()[8 - width..].to_vec()),
            (wanted.to_string().into_bytes(), found.to_string().into_bytes()),
        ];
        for (wanted, found) in pairs {
            let places: Vec<usize> = input
                .windows(found.len())
                .enumerate()
                .filter_map(|(at, window)| (window == found).then_some(at))
                .collect();
            if !places.is_empty() {
                let at = places[self.random.usize(..places.len())];
                input.splice(at..at + found.len(), wanted);
                return;
            }
        }
    }

    /// A number in one of the forms wires have it in.
    fn spelled(&mut self, number: u64) -> Vec<u8> {
        let width = 1 << self.random.usize(..4);
        if self.random.bool() {
            number.to_le_bytes()[..width].to_vec()
        } else {
            number.to_be_bytes()[8 - width..].to_vec()
        }
    }

    fn part(&mut self, bytes: &[u8]) -> (usize, usize) {
        let start = self.random.usize(..bytes.len());
        let most = if self.random.u8(..8) == 0 { bytes.len() - start } else { (bytes.len() - start).min(32) };
        (start, start + self.random.usize(1..=most))
    }

    fn insert(&mut self, input: &mut Vec<u8>, piece: &[u8]) {
        let at = self.random.usize(..=input.len());
        input.splice(at..at, piece.iter().copied());
    }

    fn overwrite(&mut self, input: &mut Vec<u8>, piece: &[u8]) {
        let at = self.random.usize(..=input.len());
        let end = (at + piece.len()).min(input.len());
        input.splice(at..end, piece.iter().copied());
    }
}
