// swift-tools-version: 6.2
import PackageDescription

/// Every target of ours is built to the same strictness; a warning is an error.
let strictTests: [SwiftSetting] = [
    .swiftLanguageMode(.v6),
    .treatAllWarnings(as: .error),
    .enableUpcomingFeature("ExistentialAny"),
    .enableUpcomingFeature("InternalImportsByDefault"),
    .enableUpcomingFeature("MemberImportVisibility"),
    .enableUpcomingFeature("NonisolatedNonsendingByDefault"),
]

/// In the product, each unsafe expression is marked as well.
let strict = strictTests + [.strictMemorySafety()]

/// A module of the product: it may import only what is named in `uses`.
func module(_ name: String, uses: [Target.Dependency] = []) -> Target {
    .target(name: name, dependencies: uses, swiftSettings: strict)
}

/// A suite of tests named after the module or the verb it examines.
func suite(_ name: String, uses: [Target.Dependency], without: [String] = []) -> Target {
    .testTarget(name: name, dependencies: uses, exclude: without, swiftSettings: strictTests)
}

let package = Package(
    name: "pgpush",
    products: [
        .executable(name: "pgpush", targets: ["pgpush"]),
        .executable(name: "apns-simulator", targets: ["apns-simulator"]),
    ],
    targets: [
        // The C libraries, each behind one module map.
        .systemLibrary(name: "CLinux"),
        .systemLibrary(name: "CLibPQ", pkgConfig: "libpq", providers: [.apt(["libpq-dev"])]),
        .systemLibrary(name: "COpenSSL", pkgConfig: "openssl", providers: [.apt(["libssl-dev"])]),
        .systemLibrary(name: "CNGHTTP2", pkgConfig: "libnghttp2", providers: [.apt(["libnghttp2-dev"])]),
        .systemLibrary(name: "CMicrohttpd", pkgConfig: "libmicrohttpd", providers: [.apt(["libmicrohttpd-dev"])]),

        // Foundations: no word of pushing in them.
        module("Telemetry", uses: ["CLinux"]),
        module("Reactor", uses: ["CLinux", "Telemetry"]),
        module("TLS", uses: ["COpenSSL"]),
        module("Postgres", uses: ["CLibPQ", "Reactor", "Telemetry"]),
        module("HTTP2", uses: ["CNGHTTP2", "TLS", "Reactor", "Telemetry"]),

        // The domain.
        module("PushModel"),
        module("APNs", uses: ["PushModel", "HTTP2", "TLS", "Reactor", "Telemetry"]),
        .target(
            name: "Schema", path: "sql", exclude: ["README.md"], sources: ["Schema.swift"],
            resources: [.embedInCode("migrations"), .embedInCode("objects")], swiftSettings: strict),
        module("PushStore", uses: ["PushModel", "Schema", "Postgres", "Reactor", "Telemetry"]),
        module("Pipeline", uses: ["PushModel", "APNs", "PushStore", "HTTP2", "Postgres", "Reactor", "Telemetry"]),

        // What an operator's tools ask over HTTP; it is handed its pages.
        module("Admin", uses: ["CMicrohttpd", "Reactor", "Telemetry"]),

        // The double of Apple's service: an independent reading of Apple's rules, so it may not use APNs.
        module("APNsSimulator", uses: ["HTTP2", "TLS", "Reactor", "Telemetry"]),

        .executableTarget(
            name: "pgpush",
            dependencies: [
                "CLinux", "Admin", "Pipeline", "PushStore", "APNs", "PushModel", "HTTP2", "Postgres", "TLS", "Reactor",
                "Telemetry",
            ],
            swiftSettings: strict),
        .executableTarget(
            name: "apns-simulator", dependencies: ["CLinux", "APNsSimulator", "Reactor", "Telemetry"],
            swiftSettings: strict),

        .executableTarget(
            name: "http2-benchmark", dependencies: ["HTTP2", "TLS", "Reactor", "Telemetry"], path: "Tests/Benchmarks",
            exclude: ["apps-apart.sh", "compare.sh", "end-to-end.sh"],
            swiftSettings: strictTests),

        .target(name: "TestSupport", dependencies: [], path: "Tests/TestSupport", swiftSettings: strictTests),
        // What each answer of Apple's means, written down a second time: for the rules alone and for the whole worker.
        .target(
            name: "ExpectedAnswers", dependencies: ["PushModel"], path: "Tests/ExpectedAnswers",
            swiftSettings: strictTests),
        .target(
            name: "FuzzSurfaces", dependencies: ["APNs", "APNsSimulator", "PushModel", "Telemetry"],
            path: "Tests/Fuzzing/Surfaces", swiftSettings: strictTests),
        .testTarget(
            name: "FuzzingTests", dependencies: ["FuzzSurfaces", "APNs", "TestSupport"], path: "Tests/Fuzzing/Suite",
            swiftSettings: strictTests),
        suite("TelemetryTests", uses: ["Telemetry"]),
        suite("ReactorTests", uses: ["Reactor", "CLinux", "Telemetry"]),
        suite("TLSTests", uses: ["TLS", "TestSupport"]),
        suite("PostgresTests", uses: ["Postgres", "Reactor", "Telemetry", "TestSupport"]),
        suite("HTTP2Tests", uses: ["HTTP2", "TLS", "Reactor", "TestSupport"]),
        suite("PushModelTests", uses: ["PushModel", "ExpectedAnswers", "TestSupport"]),
        suite("APNsTests", uses: ["APNs", "PushModel", "HTTP2", "TLS", "Telemetry", "TestSupport"]),
        suite("PipelineTests", uses: ["Pipeline", "PushStore", "PushModel", "HTTP2", "Reactor", "Telemetry"]),
        suite("AdminTests", uses: ["Admin", "Reactor", "Telemetry", "TestSupport"]),
        suite("SQLTests", uses: ["TestSupport"]),
        suite("SimulatorTests", uses: ["APNsSimulator", "HTTP2", "TLS", "Reactor", "Telemetry", "TestSupport"]),
        suite("ChaosTests", uses: ["TestSupport"]),
        suite(
            "EndToEndTests",
            uses: [
                "pgpush", "APNs", "PushStore", "PushModel", "Schema", "Postgres", "Reactor", "Telemetry", "TLS",
                "ExpectedAnswers", "TestSupport",
            ], without: ["Golden"]),
        // Real processes only, as for EndToEndTests: the executable is built, not imported.
        suite("IncidentTests", uses: ["pgpush", "TestSupport"]),
    ]
)
