"""The contract between nodes, pure: types, wire, signing, rules, seen, manifest. `proto/` says the same in prose, with vectors."""
