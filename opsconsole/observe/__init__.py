"""World to samples: pages of metrics and cluster state become values; failures become values too."""
