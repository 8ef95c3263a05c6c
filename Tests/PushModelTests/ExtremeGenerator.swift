// Randomness at its borders.

/// Always the least or always the greatest.
struct ExtremeGenerator: RandomNumberGenerator {
    let value: UInt64
    mutating func next() -> UInt64 { value }
    /// Not 0: the standard library draws again for ever when it is offered nothing else.
    static let least = ExtremeGenerator(value: 1)
    static let greatest = ExtremeGenerator(value: .max)
}
