"""Everything that draws: matches, patches, plots and tables."""
