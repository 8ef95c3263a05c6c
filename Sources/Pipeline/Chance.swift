// The system's randomness as something that can be kept: the standard library's generator has no bytes, and the thread sanitizer
// stumbles over the address of a property that has none.

/// Uniform random numbers from the system; loop-confined.
struct Chance: RandomNumberGenerator {
    private var system = SystemRandomNumberGenerator()
    private var draws: UInt64 = 0

    /// The next 64 bits.
    mutating func next() -> UInt64 {
        draws &+= 1
        return system.next()
    }
}
