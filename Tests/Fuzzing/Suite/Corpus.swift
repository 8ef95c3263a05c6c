// The inputs that are kept: seeds that show what a surface is about, and whatever a fuzzer once found.

import Foundation
import FuzzSurfaces

/// Files under `Corpus/`.
enum Corpus {
    private static let folder = URL(fileURLWithPath: #filePath)
        .deletingLastPathComponent().deletingLastPathComponent().appendingPathComponent("Corpus")

    /// The inputs of a surface by their names.
    static func inputs(_ surface: Surface) throws -> [(name: String, bytes: [UInt8])] {
        let folder = folder.appendingPathComponent(surface.rawValue)
        return try FileManager.default.contentsOfDirectory(atPath: folder.path).sorted().map {
            ($0, Array(try Data(contentsOf: folder.appendingPathComponent($0))))
        }
    }

    /// Pieces that inputs of a surface are made of; libFuzzer gets the same as its dictionary.
    static func pieces(_ surface: Surface) throws -> [[UInt8]] {
        let text = try Data(contentsOf: folder.appendingPathComponent("\(surface.rawValue).pieces"))
        return text.split(separator: 0x0a).map { Array($0) }
    }
}
