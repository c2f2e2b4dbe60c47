"""A forge on loopback that speaks GitHub's, Gitea's and GitLab's APIs over one state, for tests and benchmarks."""
