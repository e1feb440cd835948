"""From a file to numbers: read a table, learn what its columns are, and code them as a matrix.

    file ─► read ─► typed ─► Schema.learn ─► Schema.encode ─► (N, D) numbers with a label a column

A `Schema` remembers every choice that was made from the training table (which columns, which levels, what stands for a
missing value), so that new rows are coded the same way. It is plain JSON. Reading needs pandas:
`pip install kosambi[cli]`.
"""

from kosambi.tables._names import as_known as as_known
from kosambi.tables._names import choose_columns as choose_columns
from kosambi.tables._parquet import pyarrow_modules as pyarrow_modules
from kosambi.tables._read import column_names as column_names
from kosambi.tables._read import read as read
from kosambi.tables._schema import Column as Column
from kosambi.tables._schema import Schema as Schema
from kosambi.tables._target import Target as Target
from kosambi.tables._target import read_target as read_target
from kosambi.tables._typed import check_complete as check_complete
from kosambi.tables._typed import kind_of as kind_of
from kosambi.tables._typed import typed as typed
from kosambi.tables._typed import without_row_numbers as without_row_numbers
