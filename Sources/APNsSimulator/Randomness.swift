// Chance that can be repeated: the same seed gives the same weather, whatever the order of the requests.

/// A generator whose whole sequence follows from its seed (SplitMix64).
package struct SeededGenerator: RandomNumberGenerator, Sendable {
    private var state: UInt64

    /// Starts the sequence of `seed`.
    package init(seed: UInt64) { state = seed }

    package mutating func next() -> UInt64 {
        state &+= 0x9E37_79B9_7F4A_7C15
        return SeededGenerator.mix(state)
    }

    /// Spreads the bits of a number over the whole range.
    static func mix(_ number: UInt64) -> UInt64 {
        var z = number
        z = (z ^ (z >> 30)) &* 0xBF58_476D_1CE4_E5B9
        z = (z ^ (z >> 27)) &* 0x94D0_49BB_1331_11EB
        return z ^ (z >> 31)
    }
}

/// A stable 64-bit hash of a text (FNV-1a, mixed), the same in every run.
package func stableHash(_ text: String) -> UInt64 {
    var hash: UInt64 = 0xCBF2_9CE4_8422_2325
    for byte in text.utf8 { hash = (hash ^ UInt64(byte)) &* 0x100_0000_01B3 }
    return SeededGenerator.mix(hash)
}

/// Whether one of a share of all cases is met: the same answer for the same seed, case and kind of mishap.
///
/// `share` lies between 0 (never) and 1 (always); `salt` tells one kind of mishap from another.
package func falls(_ token: UInt64, within share: Double, seed: UInt64, salt: UInt64) -> Bool {
    guard share > 0 else { return false }
    let roll = SeededGenerator.mix(token ^ SeededGenerator.mix(seed &+ salt))
    return Double(roll >> 11) * 0x1p-53 < share
}
