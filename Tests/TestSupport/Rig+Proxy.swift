// Proxies between a worker and what it talks to.

extension Rig {
    /// A proxy before the database, and the variables that lead a worker through it (and past a pooler).
    package func databaseProxy() throws -> (proxy: TCPProxy, variables: [String: String]) {
        let proxy = try TCPProxy(to: database.cluster.port)
        let user = PostgresCluster.user
        return (proxy, ["DATABASE_URL": "postgresql://\(user)@127.0.0.1:\(proxy.port)/\(database.name)"])
    }

    /// A proxy before the simulator's production service, and the variables that lead a worker through it.
    package func productionProxy() throws -> (proxy: TCPProxy, variables: [String: String]) {
        let proxy = try TCPProxy(to: simulator.productionPort)
        return (proxy, ["APNS_PRODUCTION_URL": "https://127.0.0.1:\(proxy.port)"])
    }
}
