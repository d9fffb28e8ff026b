"""Reports: tables, figures, contact sheets, and HTML pages without external files."""
