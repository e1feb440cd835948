"""Files: any model, prior, basis, posterior or draw in one safetensors file, without pickle and without code.

A file holds arrays and a JSON description of how they make up an object. Loading builds classes of kosambi that are on
a list, and parts of your own that you hand over by name; nothing in a file can be executed.
"""

from kosambi.files._save_load import check_saveable, load, save

__all__ = ["check_saveable", "load", "save"]
