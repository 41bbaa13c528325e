"""Many runs: cells that depend on nothing but their configuration, a store of their results, and runners that compute
them."""
