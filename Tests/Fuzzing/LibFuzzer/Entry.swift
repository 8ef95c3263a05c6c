// The entry of libFuzzer: compiled by fuzz.sh, no part of the package. Which surface is examined, PGPUSH_FUZZ_SURFACE says.

import FuzzSurfaces
import Glibc

private let surface: Surface = {
    guard let name = getenv("PGPUSH_FUZZ_SURFACE"), let surface = Surface(rawValue: String(cString: name)) else {
        fatalError("PGPUSH_FUZZ_SURFACE must be one of \(Surface.allCases.map(\.rawValue))")
    }
    return surface
}()

/// Examines one input; a broken rule ends the process, and libFuzzer keeps the input.
@_cdecl("LLVMFuzzerTestOneInput")
public func examine(_ start: UnsafePointer<UInt8>?, _ count: Int) -> CInt {
    do {
        try surface.examine(Array(UnsafeBufferPointer(start: start, count: count)))
    } catch {
        fatalError("\(error)")
    }
    return 0
}
