"""The canary: measure the policy on questions of the node's own, remember, and go back when it fell."""
